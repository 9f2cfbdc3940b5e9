import { type Item, ToolKind } from '../gen/tollgate/v1/content_pb.ts';

/**
 * Public ids of responses and their items. They are derived only from the request's id and the item's number, so that a response has the same ids each time it is rendered, and the id of an item tells where the item is stored.
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

/** Returns the id of the response to a request ("req_…" becomes "resp_…"). */
export function toResponseId(requestId: string): string {
  return `resp_${readSuffix(requestId)}`;
}

/** Returns the id of the request that created a response; undefined if the gateway can't have made the response's id. */
export function toRequestId(responseId: string): string | undefined {
  return responseIdPattern.test(responseId) ? `req_${readSuffix(responseId)}` : undefined;
}

/** Returns the id of an output item. `index`: its number among the response's output items, from 0. */
export function outputItemId(responseId: string, item: Item, index: number): string {
  return `${choosePrefix(item)}_${readSuffix(responseId)}_${index}`;
}

/**
 * Returns the id of an input item that came without one. `index`: its number among the input items of the request (without earlier turns), from 0.
 */
export function inputItemId(responseId: string, item: Item, index: number): string {
  return `${choosePrefix(item)}_${readSuffix(responseId)}_i${index}`;
}

/** Where an item with such an id is stored. */
export interface ItemPlace {
  readonly responseId: string;
  readonly side: 'input' | 'output';
  readonly index: number;
}

/** Returns where the item with this id is stored; undefined if the gateway can't have made the id. */
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
