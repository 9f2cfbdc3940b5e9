import { type Extra, type Item, type Opaque, type Part } from '../../gen/tollgate/v1/content_pb.ts';
import type { Json, JsonObject } from '../codec.ts';
import {
  makeItem,
  makeOpaque,
  makePart,
  reasoningContent,
  reasoningTextContent,
  summaryTextContent,
} from '../content.ts';
import { countIn, objectIn } from '../json.ts';
import { type EnvelopedItem, unwrapReasoning, wrapReasoning } from '../reasoning-envelope.ts';
import { extras } from './extras.ts';

/**
 * `reasoning_details`: how Chat Completions carries reasoning, summaries and blobs (an extension that OpenRouter
 * introduced and others follow). Entries with the same `index` belong to one reasoning block, which is one item here.
 * Source: docs/interfaces/chat-completions.md "Stream"; docs/interfaces/README.md "Translation"; translation cases RE-02, RE-25.
 */

/** One entry. Every member may be absent or null. */
export interface ReasoningDetail {
  readonly type?: string | null | undefined;
  readonly text?: string | null | undefined;
  readonly summary?: string | null | undefined;
  readonly data?: string | null | undefined;
  readonly signature?: string | null | undefined;
  readonly format?: string | null | undefined;
  readonly index?: number | null | undefined;
  /** The position of the reasoning in its message, as `placeMember` writes it. */
  readonly after?: unknown;
}

/** The known types of entries. */
export const detailType = {
  text: 'reasoning.text',
  summary: 'reasoning.summary',
  encrypted: 'reasoning.encrypted',
} as const;

/** The format of blobs that only this gateway can read. */
const envelopeFormat = 'tollgate-v1';

const formatByKind: Readonly<Record<string, string>> = {
  'anthropic.signature': 'anthropic-claude-v1',
  'anthropic.redacted': 'anthropic-claude-v1',
  'openai.encrypted': 'openai-responses-v1',
  'gemini.thought_signature': 'google-gemini-v1',
  'tollgate.envelope': envelopeFormat,
};

/** Returns the blob of an entry: a signature of its text, or encrypted data; undefined if it has neither. */
export function readDetailOpaque(detail: ReasoningDetail, provider: string): Opaque | undefined {
  const { signature, data, format } = detail;
  if (signature != null && signature !== '') return makeOpaque(signatureKind(format), signature, provider);
  if (data != null && data !== '') return makeOpaque(encryptedKind(format), data, provider);
  return undefined;
}

function signatureKind(format: string | null | undefined): string {
  if (format === 'anthropic-claude-v1') return 'anthropic.signature';
  return format === 'google-gemini-v1' ? 'gemini.thought_signature' : 'chat.signature';
}

/** Returns whether Chat has an entry for a blob of this kind. */
function hasEntry(kind: string): boolean {
  return kind.startsWith('chat.') || formatByKind[kind] !== undefined;
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

/** Returns whether a blob is a signature of readable text, not encrypted data. */
function isSignature(kind: string): boolean {
  return kind === 'anthropic.signature' || kind === 'chat.signature';
}

const own = new Set(['type', 'text', 'summary', 'data', 'signature', 'index', 'after']);

/**
 * Returns the members of an entry that have no field (`id`, …), which are sent back with every entry of its block; undefined if it has
 * none.
 */
export function readDetailExtra(detail: ReasoningDetail, opaque: Opaque | undefined): Extra | undefined {
  const rest = listRest(detail, opaque);
  return rest.length === 0 ? undefined : extras.of(Object.fromEntries(rest));
}

/** Returns the members of an entry, without its text and its blob, and without a `format` that the kind of the blob implies. */
function listRest(detail: ReasoningDetail, opaque: Opaque | undefined): [string, unknown][] {
  const isImplied = opaque !== undefined && formatByKind[opaque.kind] === detail.format;
  return Object.entries(detail).filter(
    ([name, value]) => !own.has(name) && value != null && !(name === 'format' && isImplied),
  );
}

/** The position of reasoning in its message: how many calls, and how many UTF-16 units of text, precede it. */
export interface ReasoningPlace {
  readonly calls: number;
  readonly text: number;
}

/**
 * Returns the member `after`, this gateway's extension for the position of reasoning: providers refuse signed reasoning
 * that is out of its original order (translation case TR-20). Empty if the reasoning comes first, as it usually does.
 */
export function placeMember({ calls, text }: ReasoningPlace): JsonObject {
  return calls === 0 && text === 0 ? {} : { after: { tool_calls: calls, text } };
}

function readPlace(block: readonly ReasoningDetail[]): ReasoningPlace {
  const position = block.map(({ after }) => objectIn(after as Json | undefined)).find(after => after !== undefined);
  return { calls: countIn(position?.['tool_calls']) ?? 0, text: countIn(position?.['text']) ?? 0 };
}

/** A reasoning block and its place in the message. */
export interface PlacedReasoning {
  readonly item: Item;
  readonly place: ReasoningPlace;
}

/** Returns the reasoning blocks of all entries of a message. Each entry without an index is one block. */
export function readReasoningDetails(details: readonly ReasoningDetail[], turn: number): PlacedReasoning[] {
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
  return blocks.map(block => ({ item: toItem(block, turn), place: readPlace(block) }));
}

function toItem(block: readonly ReasoningDetail[], turn: number): Item {
  const blobs = block.map(detail => readDetailOpaque(detail, ''));
  const envelopes = block.map(({ data }) => unwrapReasoning(data ?? ''));
  const opaque = blobs.flatMap((blob, index) => envelopes[index]?.blobs ?? blob ?? []);
  const rest = block.flatMap((detail, index) => listRest(detail, blobs[index]));
  const sealed = envelopes.find(envelope => envelope !== undefined);
  const extra = sealed?.extra ?? (rest.length === 0 ? undefined : extras.of(Object.fromEntries(rest)));
  const redacted = opaque.some(each => each.kind === 'anthropic.redacted');
  const parts = sealed?.parts ?? toParts(block);
  return makeItem(reasoningContent({ parts, opaque, redacted }), turn, extra);
}

/** Returns the texts and summaries of a block. Adjacent entries of the same kind become one part. */
function toParts(block: readonly ReasoningDetail[]): Part[] {
  const parts: Part[] = [];
  for (const detail of block) {
    const summary = detail.summary ?? '';
    const text = detail.text ?? '';
    const last = parts.at(-1)?.content;
    if (summary !== '') {
      if (last?.case === 'summaryText') last.value.text += summary;
      else parts.push(makePart(summaryTextContent(summary)));
    } else if (text !== '') {
      if (last?.case === 'reasoningText') last.value.text += text;
      else parts.push(makePart(reasoningTextContent(text)));
    }
  }
  return parts;
}

/** Returns the readable text of a reasoning part; '' if it is another kind of part. */
export function readReasoningText(part: Part): string {
  const { content } = part;
  return content.case === 'reasoningText' || content.case === 'summaryText' ? content.value.text : '';
}

/** Options of `renderItemDetails`. */
export interface DetailChoices {
  /** The blobs that may be sent; absent: all. */
  readonly opaque?: readonly Opaque[];
  /** The position of the item in its message; absent: first. */
  readonly place?: ReasoningPlace;
}

/** Renders the entries of one reasoning item; `index` identifies the block within the message. */
export function renderItemDetails(item: Item, index: number, { opaque, place }: DetailChoices = {}): JsonObject[] {
  if (item.content.case !== 'reasoning') return [];
  const { parts } = item.content.value;
  const blobs = opaque ?? item.content.value.opaque;
  const rest = { ...extras.members(item.extra), ...(place === undefined ? {} : placeMember(place)) };
  const entries: JsonObject[] = parts.map(part =>
    part.content.case === 'summaryText'
      ? { type: detailType.summary, summary: part.content.value.text, ...rest, index }
      : { type: detailType.text, text: readReasoningText(part), ...rest, index },
  );
  for (const blob of renderBlobDetails(blobs, { parts, extra: item.extra })) {
    const entry: JsonObject = { ...blob, ...rest, index };
    const last = entries.at(-1);
    if (entry['type'] === detailType.text && last?.['type'] === detailType.text) Object.assign(last, entry);
    else entries.push(entry);
  }
  return entries;
}

/**
 * Renders the entries of one item's blobs, without the index of the block. If Chat has no entry for one of them, all are put into one
 * encrypted envelope, together with the reasoning.
 */
export function renderBlobDetails(blobs: readonly Opaque[], item: EnvelopedItem): JsonObject[] {
  if (blobs.every(({ kind }) => hasEntry(kind))) return blobs.map(renderDetail);
  return [{ type: detailType.encrypted, data: wrapReasoning(blobs, item), format: envelopeFormat }];
}

function renderDetail(opaque: Opaque): JsonObject {
  const format = formatByKind[opaque.kind];
  const named: JsonObject = format === undefined ? {} : { format };
  if (isSignature(opaque.kind)) return { type: detailType.text, signature: opaque.data, ...named };
  return { type: detailType.encrypted, data: opaque.data, ...named };
}
