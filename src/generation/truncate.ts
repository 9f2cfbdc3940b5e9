import { type Item, Role } from '../gen/tollgate/v1/content_pb.ts';

/**
 * Removes the oldest units of a conversation that is too long. A unit is a message, or everything that belongs to one turn of the model, including its tool calls and their results. Units are never split, because an upstream would refuse or misunderstand half of one.
 * Source: docs/interfaces/responses.md "Truncation".
 */

/** An item, and its number of tokens. */
export interface CountedItem {
  readonly item: Item;
  readonly tokens: number;
}

/**
 * Returns the items that remain if at least `surplus` tokens are dropped: the oldest units first, but never system and developer messages, and never the last unit. Undefined if that is not enough.
 */
export function withoutOldest(items: readonly CountedItem[], surplus: number): Item[] | undefined {
  const units = listUnits(items.map(({ item }) => item));
  const lastUnit = units.at(-1);
  const tokensByTurn = new Map<number, number>();
  for (const [index, unit] of units.entries()) {
    tokensByTurn.set(unit, (tokensByTurn.get(unit) ?? 0) + (items[index]?.tokens ?? 0));
  }
  const dropped = new Set<number>();
  let left = surplus;
  for (const [index, { item }] of items.entries()) {
    const unit = units[index];
    if (left <= 0) break;
    if (unit === undefined || unit === lastUnit || dropped.has(unit) || instructs(item)) continue;
    dropped.add(unit);
    left -= tokensByTurn.get(unit) ?? 0;
  }
  if (left > 0) return undefined;
  return items.filter((_, index) => !dropped.has(units[index] ?? -1)).map(({ item }) => item);
}

function instructs({ content }: Item): boolean {
  if (content.case !== 'message') return false;
  return content.value.role === Role.SYSTEM || content.value.role === Role.DEVELOPER;
}

/** Returns the number of each item's unit. Items with equal numbers belong together. */
function listUnits(items: readonly Item[]): number[] {
  const units: number[] = [];
  const ofCalls = new Map<string, number>();
  let turn = 0;
  for (const [index, { turn: own, content }] of items.entries()) {
    const isSameTurn = own !== 0 && own === turn;
    let unit = isSameTurn ? (units[index - 1] ?? index) : index;
    turn = own;
    if (content.case === 'toolCall') ofCalls.set(content.value.callId, unit);
    if (content.case === 'toolResult') unit = ofCalls.get(content.value.callId) ?? unit;
    units.push(unit);
  }
  return units;
}
