import {
  create,
  type DescField,
  type DescMessage,
  mergeFromBinary,
  type MessageShape,
  ScalarType,
  toBinary,
} from '@bufbuild/protobuf';
import { BinaryReader, BinaryWriter, WireType } from '@bufbuild/protobuf/wire';
import { freeMemory } from '../lib/own-memory.ts';
import { FeatureSet_FieldPresence } from '@bufbuild/protobuf/wkt';

/**
 * Reads and writes protobuf messages with texts of megabytes. The library would block the event loop, and copy a text once for every message in which it is nested. Here long texts are read and written once, and other work gets turns in between.
 */

/** Texts longer than this are written by this module, all others by the library. */
const longText = 65_536;
/** How many bytes of short fields are read in one turn, which takes about a millisecond. */
const readBytes = 262_144;
const readOptions = { readUnknownFields: false };
/** How many characters are written in one turn, which takes about a millisecond. */
const sliceLength = 1024 ** 2;

/** Bytes of a message, or a text that is yet to be encoded as UTF-8. */
interface Piece {
  readonly content: Uint8Array | string;
  /** In bytes. */
  readonly length: number;
}

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
  for (const { content } of list) {
    if (typeof content === 'string') at = await writeText(bytes, at, content);
    else {
      bytes.set(content, at);
      at += content.length;
    }
  }
  return bytes;
}

/** Returns the length of a message's encoding, without encoding its long texts. */
export function countBytes<Desc extends DescMessage>(schema: Desc, message: MessageShape<Desc>): number {
  return splitMessage(schema, message, findHolders(message)).length;
}

/**
 * Does the same as `fromBinary` without unknown fields: in turns of the event loop, of which each reads one long text at most. `freed`: the bytes are not used afterwards, so the memory of a large message is freed.
 */
export async function fromBinaryInTurns<Desc extends DescMessage>(
  schema: Desc,
  bytes: Uint8Array,
  afterwards?: 'freed',
): Promise<MessageShape<Desc>> {
  const message = create(schema);
  const isFreed = afterwards === 'freed' && bytes.length > readBytes;
  await mergeInTurns(schema, message, bytes, isFreed);
  if (isFreed) freeMemory(bytes);
  return message;
}

/** Does the same as `mergeFromBinary`. `copies`: the message shares no memory with the bytes. */
async function mergeInTurns(schema: DescMessage, message: object, bytes: Uint8Array, copies: boolean): Promise<void> {
  const merge = (piece: Uint8Array): unknown =>
    mergeFromBinary(schema, message as MessageShape<DescMessage>, copies ? new Uint8Array(piece) : piece, readOptions);
  if (bytes.length <= readBytes) {
    merge(bytes);
    return;
  }
  for (const { field, bytes: piece } of cutFields(schema, bytes)) {
    if (field === undefined) merge(piece);
    else if (field.message === undefined) setField(message, field, readText(piece));
    else {
      // A field that occurs twice is merged, as protobuf requires.
      const value = getMessage(message, field) ?? create(field.message);
      await mergeInTurns(field.message, value, piece, copies);
      setField(message, field, value);
    }
    await new Promise(setImmediate);
  }
}

/** Fields that are read together; with `field`, the value of one that is read by itself. */
interface FieldPiece {
  readonly field: DescField | undefined;
  readonly bytes: Uint8Array;
}

/** Cuts a message into pieces that are read in one turn each. Leaves out long fields that the schema does not have. */
function* cutFields(schema: DescMessage, bytes: Uint8Array): Generator<FieldPiece, void, undefined> {
  const fields = new Map(schema.fields.map(field => [field.number, field]));
  const reader = new BinaryReader(bytes);
  let from = 0;
  const skipped = (to: number): FieldPiece[] =>
    to > from ? [{ field: undefined, bytes: bytes.subarray(from, to) }] : [];
  while (reader.pos < reader.len) {
    const at = reader.pos;
    if (at - from > readBytes) {
      yield* skipped(at);
      from = at;
    }
    const [number, type] = reader.tag();
    if (type !== WireType.LengthDelimited) {
      reader.skip(type, number);
      continue;
    }
    const value = reader.bytes();
    const field = fields.get(number);
    if (value.length <= longText || (field !== undefined && !isCut(field))) continue;
    yield* skipped(at);
    from = reader.pos;
    if (field !== undefined) yield { field, bytes: value };
  }
  yield* skipped(reader.pos);
}

/** Returns whether a long value of a field is read by itself: a text or a message. */
function isCut({ fieldKind, message, scalar }: DescField): boolean {
  return fieldKind !== 'map' && (message !== undefined || scalar === ScalarType.STRING);
}

function readText({ buffer, byteOffset, length }: Uint8Array): string {
  return Buffer.from(buffer, byteOffset, length).toString('utf8');
}

/** Returns the message in a field; undefined if it is not set, or the field is a list. */
function getMessage(message: object, { fieldKind, oneof, localName }: DescField): object | undefined {
  if (fieldKind === 'list') return undefined;
  const fields = message as Fields;
  if (oneof === undefined) return fields[localName] as object | undefined;
  const chosen = fields[oneof.localName] as { readonly case?: string; readonly value?: object } | undefined;
  return chosen?.case === localName ? chosen.value : undefined;
}

/** Sets a field, or adds to its list. */
function setField(message: object, field: DescField, value: unknown): void {
  const fields = message as Fields;
  if (field.fieldKind === 'list') (fields[field.localName] as unknown[]).push(value);
  else if (field.oneof === undefined) fields[field.localName] = value;
  else fields[field.oneof.localName] = { case: field.localName, value };
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
  list.unshift(toPiece(toBinary(schema, rest as MessageShape<DescMessage>)));
  return { list, length: list.reduce((sum, { length }) => sum + length, 0) };
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
  if (typeof value === 'string') {
    const text = toPiece(value);
    return [writeHead(field, text.length), text];
  }
  if (field.message === undefined || typeof value !== 'object' || value === null)
    throw new TypeError(`${field.name} is neither a text nor a message`);
  const { list, length } = splitMessage(field.message, value, holders);
  return [writeHead(field, length), ...list];
}

/** Returns the number of a field and the length of its value. */
function writeHead({ number }: DescField, length: number): Piece {
  return toPiece(new BinaryWriter().tag(number, WireType.LengthDelimited).uint32(length).finish());
}

/** A long text is measured here once, and never again. */
function toPiece(content: Uint8Array | string): Piece {
  return { content, length: typeof content === 'string' ? Buffer.byteLength(content) : content.length };
}
