import { type Item, ToolKind } from '../gen/tollgate/v1/content_pb.ts';

/**
 * Public ids of responses and their items. They are derived from the request's id and the item's number only, so that every rendering of a
 * response uses the same ids, and an item's id shows where it is stored.
 */

const itemIdPattern = /^[a-z]+_([0-9A-Za-z]{21})_(i?)(\d{1,9})$/;
const responseIdPattern = /^resp_[0-9A-Za-z]{21}$/;

const prefixes: Readonly<Record<Exclude<Item['content']['case'], undefined>, string>> = {
  message: 'msg',
  toolCall: 'fc',
  toolResult: 'fco',
  reasoning: 'rs',
  compaction: 'cmp',
  serverTool: 'st',
  reference: 'ref',
  unknown: 'item',
};

/** The id of the response that a request makes ("req_…" becomes "resp_…"). */
export function toResponseId(requestId: string): string {
  return `resp_${readSuffix(requestId)}`;
}

/** Returns the id of the request that made a response; undefined if the gateway can't have made the id. */
export function toRequestId(responseId: string): string | undefined {
  return responseIdPattern.test(responseId) ? `req_${readSuffix(responseId)}` : undefined;
}

/** The id of an output item; `index` is its number among the response's output items, from 0. */
export function outputItemId(responseId: string, item: Item, index: number): string {
  return `${choosePrefix(item)}_${readSuffix(responseId)}_${index}`;
}

/**
 * Returns the id of an input item that came without one; `index` is its number among the response's own input items,
 * from 0.
 */
export function inputItemId(responseId: string, item: Item, index: number): string {
  return `${choosePrefix(item)}_${readSuffix(responseId)}_i${index}`;
}

/** The place of an item with one of the ids above. */
export interface ItemPlace {
  readonly responseId: string;
  readonly side: 'input' | 'output';
  readonly index: number;
}

/** Returns the place that an item's id names; undefined if the gateway did not make the id. */
export function parseItemId(itemId: string): ItemPlace | undefined {
  const [, suffix, side, index] = itemIdPattern.exec(itemId) ?? [];
  if (suffix === undefined || index === undefined) return undefined;
  return { responseId: `resp_${suffix}`, side: side === 'i' ? 'input' : 'output', index: Number(index) };
}

function choosePrefix({ content }: Item): string {
  if (content.case === undefined) return 'item';
  if (content.case === 'toolCall' || content.case === 'toolResult') {
    if (content.value.kind === ToolKind.CUSTOM) return content.case === 'toolCall' ? 'ctc' : 'ctco';
  }
  return prefixes[content.case];
}

function readSuffix(id: string): string {
  return id.slice(id.indexOf('_') + 1);
}
