import type { Item } from '../../gen/tollgate/v1/content_pb.ts';
import { itemOf, messageContent, textContent } from '../content.ts';
import type { PlacedThoughts } from './reasoning-details.ts';

/** What one message of the assistant holds, each kind in its own order. */
export interface AssistantContent {
  readonly thoughts: readonly PlacedThoughts[];
  /** The message of its text; empty where it says nothing. */
  readonly said: readonly Item[];
  readonly called: readonly Item[];
}

/**
 * The items of a message of the assistant in the order in which the model made them, as far as its thoughts tell: between two of them text comes before calls. A text that is
 * cut by thoughts becomes several messages of the turn; one of several parts stays whole. Source: case TR-20.
 */
export function inOrder({ thoughts, said, called }: AssistantContent): Item[] {
  const rest = [...said];
  const items: Item[] = [];
  let calls = 0;
  let length = 0;
  for (const { item, place } of thoughts) {
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

/** A message cut after so many UTF-16 units: what stands before and what follows, undefined where that is nothing. Only a lone text can be cut. */
function cutAt(item: Item, units: number): [before: Item | undefined, after: Item | undefined] {
  const { content, turn } = item;
  if (units <= 0 || content.case !== 'message') return [undefined, item];
  const [only, ...more] = content.value.parts;
  if (only?.content.case !== 'text' || more.length > 0) return [undefined, item];
  const { text } = only.content.value;
  if (units >= text.length) return [item, undefined];
  const { role, name } = content.value;
  const [before, after] = [text.slice(0, units), text.slice(units)].map(piece =>
    itemOf(messageContent(role, [{ ...only, content: textContent(piece) }], name), turn),
  );
  return [before, after];
}
