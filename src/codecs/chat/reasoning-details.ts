import { type Extra, type Item, type Opaque, type Part } from '../../gen/tollgate/v1/content_pb.ts';
import type { Json, JsonObject } from '../codec.ts';
import { itemOf, opaqueOf, partOf, reasoningContent, reasoningTextContent, summaryTextContent } from '../content.ts';
import { countIn, objectIn } from '../json.ts';
import { type EnvelopedItem, unwrapThoughts, wrapThoughts } from '../thought-envelope.ts';
import { extras } from './extras.ts';

/**
 * `reasoning_details`: how Chat Completions carries thoughts, summaries and blobs (an extension that OpenRouter brought and others follow). Entries with the
 * same `index` belong to one block of thoughts, which is one item here. Source: wire.md B1, C3; cases RE-02, RE-25.
 */

/** One entry, as it may come from anyone. */
export interface ReasoningDetail {
  readonly type?: string | null | undefined;
  readonly text?: string | null | undefined;
  readonly summary?: string | null | undefined;
  readonly data?: string | null | undefined;
  readonly signature?: string | null | undefined;
  readonly format?: string | null | undefined;
  readonly index?: number | null | undefined;
  /** Where the thoughts stand, as `placeMember` writes it. */
  readonly after?: unknown;
}

/** The entry types that are known. */
export const detailType = {
  text: 'reasoning.text',
  summary: 'reasoning.summary',
  encrypted: 'reasoning.encrypted',
} as const;

/** The format of what only this gateway can read. */
const envelopeFormat = 'tollgate-v1';

const formatOfKind: Readonly<Record<string, string>> = {
  'anthropic.signature': 'anthropic-claude-v1',
  'anthropic.redacted': 'anthropic-claude-v1',
  'openai.encrypted': 'openai-responses-v1',
  'gemini.thought_signature': 'google-gemini-v1',
  'tollgate.envelope': envelopeFormat,
};

/** The blob of an entry: a signature of its text, or data that hides it. Undefined where it has none. */
export function opaqueOfDetail(detail: ReasoningDetail, provider: string): Opaque | undefined {
  const { signature, data, format } = detail;
  if (signature != null && signature !== '') return opaqueOf(signatureKind(format), signature, provider);
  if (data != null && data !== '') return opaqueOf(encryptedKind(format), data, provider);
  return undefined;
}

function signatureKind(format: string | null | undefined): string {
  if (format === 'anthropic-claude-v1') return 'anthropic.signature';
  return format === 'google-gemini-v1' ? 'gemini.thought_signature' : 'chat.signature';
}

/** Whether there is an entry for a blob of the kind that its readers know. */
function hasEntry(kind: string): boolean {
  return kind.startsWith('chat.') || formatOfKind[kind] !== undefined;
}

function encryptedKind(format: string | null | undefined): string {
  switch (format) {
    case 'anthropic-claude-v1':
      return 'anthropic.redacted';
    case 'google-gemini-v1':
      return 'gemini.thought_signature';
    case envelopeFormat:
      return 'tollgate.envelope';
    case 'openai-responses-v1':
    case 'azure-openai-responses-v1':
    case 'xai-responses-v1':
      return 'openai.encrypted';
    default:
      return 'chat.encrypted';
  }
}

/** Whether a blob is a signature of a readable text, as against data that hides it. */
function isSignature(kind: string): boolean {
  return kind === 'anthropic.signature' || kind === 'chat.signature';
}

const own = new Set(['type', 'text', 'summary', 'data', 'signature', 'index', 'after']);

/** The members of an entry beside its text and blob (`id`, …), which go back with every entry of its block; undefined: none. */
export function extraOfDetail(detail: ReasoningDetail, opaque: Opaque | undefined): Extra | undefined {
  const rest = restOfDetail(detail, opaque);
  return rest.length === 0 ? undefined : extras.of(Object.fromEntries(rest));
}

/** A format that the entry's blob says anyway is left out. */
function restOfDetail(detail: ReasoningDetail, opaque: Opaque | undefined): [string, unknown][] {
  const saidByBlob = opaque !== undefined && formatOfKind[opaque.kind] === detail.format;
  return Object.entries(detail).filter(
    ([name, value]) => !own.has(name) && value != null && !(name === 'format' && saidByBlob),
  );
}

/** What stands before thoughts in their message, in which text and calls have places of their own: how many calls, and how many UTF-16 units of text. */
export interface ThoughtPlace {
  readonly calls: number;
  readonly text: number;
}

/**
 * The member of an entry that says its place, an extension of the gateway's own: signed thoughts are refused in another order than they were made in (case TR-20).
 * None where the thoughts come first, as they usually do.
 */
export function placeMember({ calls, text }: ThoughtPlace): JsonObject {
  return calls === 0 && text === 0 ? {} : { after: { tool_calls: calls, text } };
}

function placeOf(block: readonly ReasoningDetail[]): ThoughtPlace {
  const said = block.map(({ after }) => objectIn(after as Json | undefined)).find(after => after !== undefined);
  return { calls: countIn(said?.['tool_calls']) ?? 0, text: countIn(said?.['text']) ?? 0 };
}

/** A block of thoughts and where it stands in its message. */
export interface PlacedThoughts {
  readonly item: Item;
  readonly place: ThoughtPlace;
}

/** Blocks of thoughts from all entries of a message; entries without an index are blocks of their own. */
export function thoughtsOfDetails(details: readonly ReasoningDetail[], turn: number): PlacedThoughts[] {
  const blocks: ReasoningDetail[][] = [];
  const byIndex = new Map<number, ReasoningDetail[]>();
  for (const detail of details) {
    const known = detail.index == null ? undefined : byIndex.get(detail.index);
    if (known !== undefined) {
      known.push(detail);
      continue;
    }
    const block = [detail];
    blocks.push(block);
    if (detail.index != null) byIndex.set(detail.index, block);
  }
  return blocks.map(block => ({ item: itemOfBlock(block, turn), place: placeOf(block) }));
}

function itemOfBlock(block: readonly ReasoningDetail[], turn: number): Item {
  const blobs = block.map(detail => opaqueOfDetail(detail, ''));
  const envelopes = block.map(({ data }) => unwrapThoughts(data ?? ''));
  const opaque = blobs.flatMap((blob, index) => envelopes[index]?.blobs ?? blob ?? []);
  const rest = block.flatMap((detail, index) => restOfDetail(detail, blobs[index]));
  const sealed = envelopes.find(envelope => envelope !== undefined);
  const extra = sealed?.extra ?? (rest.length === 0 ? undefined : extras.of(Object.fromEntries(rest)));
  const redacted = opaque.some(each => each.kind === 'anthropic.redacted');
  const parts = sealed?.parts ?? partsOfBlock(block);
  return itemOf(reasoningContent({ parts, opaque, redacted }), turn, extra);
}

/** Pieces of the same kind that follow each other are pieces of one text. */
function partsOfBlock(block: readonly ReasoningDetail[]): Part[] {
  const parts: Part[] = [];
  for (const detail of block) {
    const summary = detail.summary ?? '';
    const text = detail.text ?? '';
    const last = parts.at(-1)?.content;
    if (summary !== '') {
      if (last?.case === 'summaryText') last.value.text += summary;
      else parts.push(partOf(summaryTextContent(summary)));
    } else if (text !== '') {
      if (last?.case === 'reasoningText') last.value.text += text;
      else parts.push(partOf(reasoningTextContent(text)));
    }
  }
  return parts;
}

/** The readable text of a reasoning part; '' where it is none. */
export function thoughtOf(part: Part): string {
  const { content } = part;
  return content.case === 'reasoningText' || content.case === 'summaryText' ? content.value.text : '';
}

/** What is not said by an item of thoughts itself. */
export interface DetailChoices {
  /** The blobs that may be sent; absent: all. */
  readonly opaque?: readonly Opaque[];
  /** Absent: they come first. */
  readonly place?: ThoughtPlace;
}

/** The entries of one reasoning item, whole; `index` tells the blocks of a message apart. */
export function detailsOfItem(item: Item, index: number, { opaque, place }: DetailChoices = {}): JsonObject[] {
  if (item.content.case !== 'reasoning') return [];
  const { parts } = item.content.value;
  const blobs = opaque ?? item.content.value.opaque;
  const rest = { ...extras.members(item.extra), ...(place === undefined ? {} : placeMember(place)) };
  const entries: JsonObject[] = parts.map(part =>
    part.content.case === 'summaryText'
      ? { type: detailType.summary, summary: part.content.value.text, ...rest, index }
      : { type: detailType.text, text: thoughtOf(part), ...rest, index },
  );
  for (const blob of detailsOfBlobs(blobs, { parts, extra: item.extra })) {
    const entry: JsonObject = { ...blob, ...rest, index };
    const last = entries.at(-1);
    if (entry['type'] === detailType.text && last?.['type'] === detailType.text) Object.assign(last, entry);
    else entries.push(entry);
  }
  return entries;
}

/** The entries of the blobs of one item, without its index. Blobs of which one has no entry of its own stand together in an envelope, with the thoughts. */
export function detailsOfBlobs(blobs: readonly Opaque[], item: EnvelopedItem): JsonObject[] {
  if (blobs.every(({ kind }) => hasEntry(kind))) return blobs.map(detailOfOpaque);
  return [{ type: detailType.encrypted, data: wrapThoughts(blobs, item), format: envelopeFormat }];
}

function detailOfOpaque(opaque: Opaque): JsonObject {
  const format = formatOfKind[opaque.kind];
  const named: JsonObject = format === undefined ? {} : { format };
  if (isSignature(opaque.kind)) return { type: detailType.text, signature: opaque.data, ...named };
  return { type: detailType.encrypted, data: opaque.data, ...named };
}
