import type { Item } from '../../gen/tollgate/v1/content_pb.ts';
import { makeItem, messageContent, textContent } from '../content.ts';
import type { PlacedReasoning } from './reasoning-details.ts';

/** The content of one assistant message, each kind in its own order. */
export interface AssistantContent {
  readonly reasoning: readonly PlacedReasoning[];
  /** The message items with its text; empty if it has no text. */
  readonly messages: readonly Item[];
  readonly called: readonly Item[];
}

/**
 * Returns the items of an assistant message in the order in which the model generated them, which the positions of its reasoning show.
 * Between two pieces of reasoning, text comes before calls. A text that reasoning interrupts becomes several messages of the turn; a text
 * of several parts is not split. Source: translation case TR-20.
 */
export function inOrder({ reasoning, messages, called }: AssistantContent): Item[] {
  const rest = [...messages];
  const items: Item[] = [];
  let calls = 0;
  let length = 0;
  for (const { item, place } of reasoning) {
    const [first] = rest;
    const [before, after] = first === undefined ? [] : cutAt(first, place.text - length);
    if (before !== undefined) items.push(before);
    if (first !== undefined) rest.splice(0, 1, ...(after === undefined ? [] : [after]));
    length = Math.max(length, place.text);
    items.push(...called.slice(calls, place.calls), item);
    calls = Math.max(calls, place.calls);
  }
  return [...items, ...rest, ...called.slice(calls)];
}

/**
 * Splits a message after `units` UTF-16 units. Returns both pieces; an empty one is undefined. Only a message with a single text part can
 * be split.
 */
function cutAt(item: Item, units: number): [before: Item | undefined, after: Item | undefined] {
  const { content, turn } = item;
  if (units <= 0 || content.case !== 'message') return [undefined, item];
  const [only, ...more] = content.value.parts;
  if (only?.content.case !== 'text' || more.length > 0) return [undefined, item];
  const { text } = only.content.value;
  if (units >= text.length) return [item, undefined];
  const { role, name } = content.value;
  const [before, after] = [text.slice(0, units), text.slice(units)].map(piece =>
    makeItem(messageContent(role, [{ ...only, content: textContent(piece) }], name), turn),
  );
  return [before, after];
}
