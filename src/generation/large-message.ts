import { type DescField, type DescMessage, type MessageShape, toBinary } from '@bufbuild/protobuf';
import { BinaryWriter, WireType } from '@bufbuild/protobuf/wire';
import { FeatureSet_FieldPresence } from '@bufbuild/protobuf/wkt';

/**
 * Writes protobuf messages with texts of megabytes. The library would block the event loop, and copy a text once for every message in which it is nested. Here long texts are written once, and other work gets turns in between.
 */

/** Texts longer than this are written by this module, all others by the library. */
const longText = 65_536;
/** How many characters are written in one turn, which takes about a millisecond. */
const sliceLength = 1024 ** 2;

/** Bytes of a message, or a text that is yet to be encoded as UTF-8. */
type Piece = Uint8Array | string;

interface Pieces {
  readonly list: readonly Piece[];
  /** The length of all pieces, in bytes. */
  readonly length: number;
}

type Fields = Record<string, unknown>;

/** Encodes a message as `toBinary` does, yielding to the event loop. The bytes differ from those of `toBinary` (long texts come last), but mean the same message. */
export async function toBinaryInTurns<Desc extends DescMessage>(
  schema: Desc,
  message: MessageShape<Desc>,
): Promise<Uint8Array> {
  const holders = findHolders(message);
  if (holders.size === 0) return toBinary(schema, message);
  const { list, length } = splitMessage(schema, message, holders);
  const bytes = Buffer.allocUnsafeSlow(length);
  let at = 0;
  for (const piece of list) {
    if (typeof piece === 'string') at = await writeText(bytes, at, piece);
    else {
      bytes.set(piece, at);
      at += piece.length;
    }
  }
  return bytes;
}

/** Returns the length of a message's encoding, without encoding its long texts. */
export function countBytes<Desc extends DescMessage>(schema: Desc, message: MessageShape<Desc>): number {
  return splitMessage(schema, message, findHolders(message)).length;
}

async function writeText(bytes: Buffer, start: number, text: string): Promise<number> {
  let at = start;
  for (let from = 0; from < text.length;) {
    if (from > 0) await new Promise(setImmediate);
    const last = text.charCodeAt(from + sliceLength - 1);
    // A surrogate pair is not split.
    const end = from + sliceLength + (last >= 0xd800 && last < 0xdc00 ? 1 : 0);
    at += bytes.write(text.slice(from, end), at, 'utf8');
    from = end;
  }
  return at;
}

/** Returns the objects that contain a long text, at any depth. */
function findHolders(message: object): Set<object> {
  const holders = new Set<object>();
  const look = (value: unknown): boolean => {
    if (typeof value === 'string') return value.length > longText;
    if (typeof value !== 'object' || value === null || value instanceof Uint8Array) return false;
    let isHolder = false;
    for (const member of Object.values(value)) if (look(member)) isHolder = true;
    if (isHolder) holders.add(value);
    return isHolder;
  };
  look(message);
  return holders;
}

/** Splits a message into the bytes that the library writes, followed by each field that contains a long text. */
function splitMessage(schema: DescMessage, message: object, holders: ReadonlySet<object>): Pieces {
  const list: Piece[] = [];
  const rest: Fields = { ...message };
  for (const field of schema.fields) {
    const value = takeOut(field, rest, holders);
    for (const each of Array.isArray(value) ? (value as unknown[]) : value === undefined ? [] : [value])
      list.push(...splitField(field, each, holders));
  }
  list.unshift(toBinary(schema, rest as MessageShape<DescMessage>));
  return { list, length: list.reduce((sum, piece) => sum + byteLength(piece), 0) };
}

/** Removes a field that contains a long text from `rest`, and returns its value; undefined if it contains none. */
function takeOut(field: DescField, rest: Fields, holders: ReadonlySet<object>): unknown {
  if (field.fieldKind === 'map') return undefined;
  const isLong = (value: unknown): boolean =>
    typeof value === 'string'
      ? value.length > longText
      : typeof value === 'object' && value !== null && holders.has(value);
  if (field.oneof !== undefined) {
    const { localName } = field.oneof;
    const chosen = rest[localName] as { readonly case?: string; readonly value?: unknown } | undefined;
    if (chosen?.case !== field.localName || !isLong(chosen.value)) return undefined;
    rest[localName] = { case: undefined };
    return chosen.value;
  }
  const value = rest[field.localName];
  if (!isLong(value)) return undefined;
  rest[field.localName] = emptyValue(field);
  return value;
}

/** Returns the value of a field that the library does not write. */
function emptyValue({ fieldKind, presence }: DescField): unknown {
  if (fieldKind === 'list') return [];
  return fieldKind === 'scalar' && presence === FeatureSet_FieldPresence.IMPLICIT ? '' : undefined;
}

function splitField(field: DescField, value: unknown, holders: ReadonlySet<object>): Piece[] {
  if (typeof value === 'string') return [writeHead(field, Buffer.byteLength(value)), value];
  if (field.message === undefined || typeof value !== 'object' || value === null)
    throw new TypeError(`${field.name} is neither a text nor a message`);
  const { list, length } = splitMessage(field.message, value, holders);
  return [writeHead(field, length), ...list];
}

/** Returns the number of a field and the length of its value. */
function writeHead({ number }: DescField, length: number): Uint8Array {
  return new BinaryWriter().tag(number, WireType.LengthDelimited).uint32(length).finish();
}

function byteLength(piece: Piece): number {
  return typeof piece === 'string' ? Buffer.byteLength(piece) : piece.length;
}
