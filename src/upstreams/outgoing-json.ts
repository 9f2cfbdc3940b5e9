import type { Json, JsonObject } from '../codecs/codec.ts';
import { restoreExact } from '../lib/exact-json.ts';
import { isLargeJson, LargeJson } from '../lib/large-json.ts';

/**
 * Writes a body for an upstream as well-formed Unicode. Half a surrogate pair becomes U+FFFD, because providers would refuse the body, and every later request of the conversation. Signed or encrypted content is unchanged. Marks that `parseExact` made when it read the JSON are replaced by their content. Source: docs/interfaces/README.md "Translation".
 */
export function outgoingJson(body: JsonObject): Buffer {
  const text = JSON.stringify(body);
  // `JSON.stringify` writes only half a pair as an escape, but the same letters may also follow an escaped backslash.
  const isWellFormed = !text.includes('\\ud') || !loneEscape.test(text);
  const written = isWellFormed ? text : JSON.stringify(wellFormed(body));
  return Buffer.from(restoreExact(written));
}

/** The body of a request to an upstream. A large one is written while it is sent. */
export type OutgoingBody = Buffer | LargeJson;

/** Writes a body as `outgoingJson` does: synchronously. A large one is only measured, in several turns of the event loop. */
export function outgoingBody(body: JsonObject): Buffer | Promise<LargeJson> {
  return isLargeJson(body) ? LargeJson.measure(body, object => isSealed(object as JsonObject)) : outgoingJson(body);
}

const loneEscape = /(?<!\\)(?:\\\\)*\\ud[89a-f][0-9a-f]{2}/;
/** Members that are signatures of all other members of their object. */
const seals = ['signature', 'thoughtSignature', 'thought_signature', 'encrypted_content'] as const;

function isSealed(object: JsonObject): boolean {
  return seals.some(seal => typeof object[seal] === 'string' && object[seal] !== '');
}

function wellFormed(value: Json): Json {
  if (typeof value === 'string') return value.toWellFormed();
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) return value.map(wellFormed);
  if (isSealed(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name.toWellFormed(), wellFormed(member)]));
}
