import type { OutgoingBody } from './outgoing-json.ts';
import type { Json } from '../codecs/codec.ts';
import { parsedJson } from '../codecs/json.ts';
import { redactTokens } from '../telemetry/redaction.ts';

/** If a request is larger than this, it is not compared with the message, and nothing of the message is logged. */
const bodyBytesMax = 1 << 20;
/** A run of this many characters that also occurs in the request is a quotation. */
const quotedMin = 12;
/** A text of the request that is shorter than that, but at least this long, is a quotation if all of it occurs in the message. */
const wholeMin = 5;
/** Members whose values are words of the protocol, which a message may repeat. */
const protocolMembers = new Set([
  'type',
  'role',
  'model',
  'effort',
  'verbosity',
  'service_tier',
  'status',
  'mode',
  'detail',
]);

const quotation = '[…]';

/**
 * Returns a provider's message for the log, without quotations of the request and without possible secrets; undefined if nothing of it is safe. Addresses and credentials must have been removed from `message` before.
 */
export function toLogMessage(message: string, body: OutgoingBody | null, model: string): string | undefined {
  if (message === '') return undefined;
  if (body !== null && (!Buffer.isBuffer(body) || body.length > bodyBytesMax)) return undefined;
  const texts = body === null ? [] : readTexts(parsedJson(body.toString('utf8')), model);
  return redactTokens(withoutQuotations(message, texts)) || undefined;
}

/** Returns the texts of a request, except words of the protocol. A body that is not JSON is one text. */
function readTexts(value: Json | undefined, model: string): string[] {
  const texts: string[] = [];
  const read = (each: Json | undefined, name: string): void => {
    if (typeof each === 'string') {
      if (each !== model && !protocolMembers.has(name)) texts.push(each);
    } else if (Array.isArray(each)) for (const entry of each) read(entry, name);
    else if (typeof each === 'object' && each !== null) {
      for (const [member, entry] of Object.entries(each)) read(entry, member);
    }
  };
  read(value, '');
  return texts;
}

/** Replaces every quotation of one of the texts by "[…]". */
function withoutQuotations(message: string, texts: readonly string[]): string {
  const places = new Map<string, number[]>();
  for (let at = 0; at + quotedMin <= message.length; at += 1) {
    const piece = message.slice(at, at + quotedMin);
    const known = places.get(piece);
    if (known === undefined) places.set(piece, [at]);
    else known.push(at);
  }
  const isQuoted = new Uint8Array(message.length);
  for (const text of texts) {
    if (text.length < quotedMin && text.length >= wholeMin) {
      for (let at = message.indexOf(text); at !== -1; at = message.indexOf(text, at + 1)) {
        isQuoted.fill(1, at, at + text.length);
      }
    }
    for (let at = 0; at + quotedMin <= text.length; at += 1) {
      const found = places.get(text.slice(at, at + quotedMin));
      for (const place of found ?? []) isQuoted.fill(1, place, place + quotedMin);
    }
  }
  let kept = '';
  for (let at = 0; at < message.length; at += 1) {
    if (isQuoted[at] !== 1) kept += message[at] ?? '';
    else if (isQuoted[at - 1] !== 1) kept += quotation;
  }
  return kept;
}
