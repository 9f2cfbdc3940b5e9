import type { DescMessage } from '@bufbuild/protobuf';
import { GatewayError } from '../errors/gateway-error.ts';

/** Checks the bytes of one message before it is decoded. */
export interface MessageScanner {
  /** Checks the next bytes. Throws `body_too_large` or `validation_error` as soon as a limit is exceeded. */
  push(chunk: Uint8Array): void;
}

/** The deepest nesting of messages, which is also the limit of the decoder. */
const depthMax = 100;

/** Counts the elements of which a decoder would make an object, a string or a number each. */
class ElementCount {
  readonly #max: number;
  #count = 0;

  constructor(max: number) {
    this.#max = max;
  }

  add(count: number): void {
    this.#count += count;
    if (this.#count <= this.#max) return;
    throw new GatewayError('body_too_large', `The message has more than ${this.#max} elements.`);
  }
}

function tooDeep(): GatewayError {
  return new GatewayError('validation_error', `The message nests deeper than ${depthMax} levels.`);
}

function malformed(): GatewayError {
  return new GatewayError('validation_error', 'The message is not a valid protobuf message of its type.');
}

/** A message, map entry or group that is being scanned. */
interface Frame {
  /** The type of the frame; undefined: its fields are unknown. */
  readonly type: FrameType | undefined;
  /** The offset after its last byte. For a group, it is that of its parent. */
  readonly end: number;
  readonly isGroup: boolean;
}

/** Fields of a type, by number. */
interface FrameType {
  /** The fields that contain messages. */
  readonly messages: ReadonlyMap<number, FrameType>;
  /** The fields that contain a list of numbers in one record. */
  readonly packed: ReadonlySet<number>;
}

const noFields: ReadonlySet<number> = new Set();
const frameTypes = new WeakMap<DescMessage, FrameType>();

function findFrameType(desc: DescMessage): FrameType {
  const known = frameTypes.get(desc);
  if (known !== undefined) return known;
  const messages = new Map<number, FrameType>();
  const packed = new Set<number>();
  const type = { messages, packed };
  // Stored before the fields are read, because a type may contain itself.
  frameTypes.set(desc, type);
  for (const field of desc.fields) {
    if (field.fieldKind === 'map') {
      const value = field.mapKind === 'message' ? [[2, findFrameType(field.message)] as const] : [];
      messages.set(field.number, { messages: new Map(value), packed: noFields });
    } else if (field.message !== undefined) {
      messages.set(field.number, findFrameType(field.message));
    } else if (field.fieldKind === 'list' && field.packed) {
      packed.add(field.number);
    }
  }
  return type;
}

/** The wire types of protobuf. */
const wire = { varint: 0, fixed64: 1, bytes: 2, startGroup: 3, endGroup: 4, fixed32: 5 } as const;

/**
 * Scans a binary message without decoding it: counts known and unknown fields, and scans fields that contain messages. All other content is skipped, which takes no time for any length.
 */
export class ProtobufScanner implements MessageScanner {
  readonly #count: ElementCount;
  readonly #frames: Frame[];
  #at = 0;
  /** How many bytes are still to be skipped. */
  #skipped = 0;
  #reading: 'tag' | 'length' | 'varint' = 'tag';
  #value = 0;
  #bytes = 0;
  #field = 0;

  constructor(desc: DescMessage, elementsMax: number) {
    this.#count = new ElementCount(elementsMax);
    this.#frames = [{ type: findFrameType(desc), end: Infinity, isGroup: false }];
  }

  push(chunk: Uint8Array): void {
    for (let index = 0; index < chunk.length;) {
      if (this.#skipped > 0) {
        const taken = Math.min(this.#skipped, chunk.length - index);
        this.#skipped -= taken;
        this.#at += taken;
        index += taken;
        if (this.#skipped === 0) this.#leave();
      } else {
        this.#byte(chunk[index] ?? 0);
        index += 1;
      }
    }
  }

  /** Reads a byte of a varint. */
  #byte(byte: number): void {
    this.#at += 1;
    this.#value += (byte & 127) * 2 ** (7 * this.#bytes);
    this.#bytes += 1;
    if (byte > 127) {
      if (this.#bytes === 10) throw malformed();
      return;
    }
    const value = this.#value;
    this.#value = 0;
    this.#bytes = 0;
    if (this.#reading === 'tag') this.#tag(value);
    else if (this.#reading === 'length') this.#enter(value);
    else this.#next();
  }

  #tag(tag: number): void {
    this.#count.add(1);
    this.#field = Math.floor(tag / 8);
    switch (tag % 8) {
      case wire.varint:
        this.#reading = 'varint';
        break;
      case wire.fixed64:
        this.#skipped = 8;
        break;
      case wire.bytes:
        this.#reading = 'length';
        break;
      case wire.startGroup:
        this.#open({ type: undefined, end: this.#frames.at(-1)?.end ?? Infinity, isGroup: true });
        break;
      case wire.endGroup:
        if (this.#frames.pop()?.isGroup !== true) throw malformed();
        this.#next();
        break;
      case wire.fixed32:
        this.#skipped = 4;
        break;
      default:
        throw malformed();
    }
  }

  /** Begins to scan a field of `length` bytes if it is a message, and skips it otherwise. */
  #enter(length: number): void {
    const frame = this.#frames.at(-1);
    const end = this.#at + length;
    if (frame === undefined || end > frame.end) throw malformed();
    this.#reading = 'tag';
    const type = frame.type?.messages.get(this.#field);
    if (frame.type?.packed.has(this.#field) === true) this.#count.add(length);
    if (type === undefined) this.#skipped = length;
    else this.#open({ type, end, isGroup: false });
    if (this.#skipped === 0) this.#leave();
  }

  #open(frame: Frame): void {
    this.#frames.push(frame);
    if (this.#frames.length > depthMax) throw tooDeep();
  }

  #next(): void {
    this.#reading = 'tag';
    this.#leave();
  }

  /** Ends all messages that end at the current offset. */
  #leave(): void {
    for (let frame = this.#frames.at(-1); frame !== undefined && this.#at >= frame.end; frame = this.#frames.at(-1)) {
      this.#frames.pop();
    }
  }
}

const quote = 0x22;
const backslash = 0x5c;
const comma = 0x2c;
const opening = new Set([0x5b, 0x7b]);
const closing = new Set([0x5d, 0x7d]);

/** Scans a message in JSON: counts objects, arrays and their elements. */
export class JsonScanner implements MessageScanner {
  readonly #count: ElementCount;
  #depth = 0;
  #isText = false;
  #isEscaped = false;

  constructor(elementsMax: number) {
    this.#count = new ElementCount(elementsMax);
  }

  push(chunk: Uint8Array): void {
    for (const byte of chunk) {
      if (this.#isEscaped) this.#isEscaped = false;
      else if (this.#isText) {
        if (byte === quote) this.#isText = false;
        else if (byte === backslash) this.#isEscaped = true;
      } else if (byte === quote) this.#isText = true;
      else if (byte === comma) this.#count.add(1);
      else if (opening.has(byte)) {
        this.#count.add(1);
        this.#depth += 1;
        if (this.#depth > depthMax) throw tooDeep();
      } else if (closing.has(byte)) this.#depth -= 1;
    }
  }
}
