/** The values that PostgreSQL returns: integers as bigint, numbers with a fraction as number. */
export type Value = bigint | number | string | Uint8Array | null;

/** A parameter of a statement in the form in which it is sent. */
export type Parameter = string | null;

/** The values that can be sent. */
export type Sendable = bigint | number | string | boolean | Uint8Array | null;

const oid = { bool: 16, bytea: 17, int8: 20, int2: 21, int4: 23, oid: 26, float4: 700, float8: 701, numeric: 1700 };

/** Returns a function that reads values of a type from their text. A boolean is read as 1 or 0, as in SQLite. */
export function makeReader(type: number): (text: string) => Value {
  switch (type) {
    case oid.int8:
    case oid.int4:
    case oid.int2:
    case oid.oid:
      return BigInt;
    case oid.numeric:
      // Sums of integers are numeric.
      return text => (text.includes('.') ? Number(text) : BigInt(text));
    case oid.float8:
    case oid.float4:
      return Number;
    case oid.bool:
      return text => (text === 't' ? 1n : 0n);
    case oid.bytea:
      return text => new Uint8Array(Buffer.from(text.slice(2), 'hex'));
    default:
      return text => text;
  }
}

/** Returns the text that PostgreSQL can store: U+0000, which it refuses, becomes U+FFFD, as lone surrogates do in UTF-8. */
export function toStorable(text: string): string {
  return text.includes('\0') ? text.replaceAll('\0', '\u{FFFD}') : text;
}

/** Returns a value as a parameter. */
export function toParameter(value: Sendable): Parameter {
  if (value === null || typeof value === 'string') return value;
  if (value instanceof Uint8Array) return toHex(value);
  return String(value);
}

function toHex({ buffer, byteOffset, byteLength }: Uint8Array): string {
  return `\\x${Buffer.from(buffer, byteOffset, byteLength).toString('hex')}`;
}

/** Returns an array of values as one parameter: `{1,NULL,"a \"text\""}`. */
export function toArray(values: Iterable<Sendable>): string {
  let text = '{';
  for (const value of values) {
    if (text.length > 1) text += ',';
    if (value === null) text += 'NULL';
    else if (typeof value === 'string') text += quote(value);
    else if (value instanceof Uint8Array) text += quote(toHex(value));
    else text += String(value);
  }
  return `${text}}`;
}

function quote(text: string): string {
  return `"${text.replaceAll(/["\\]/g, String.raw`\$&`)}"`;
}
