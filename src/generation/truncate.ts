import { type Item, Role } from '../gen/tollgate/v1/content_pb.ts';

/**
 * What can go from a conversation that is too long: the oldest first, each unit whole. A unit is a message, or all that belongs to one turn of the model,
 * its tool calls with their results: half of it would be refused, or misunderstood. Source: decisions §4, "truncation".
 */

/** An item's index and what it counts. */
export interface CountedItem {
  readonly item: Item;
  readonly tokens: number;
}

/**
 * The items that stay so that `surplus` tokens or more go: the oldest units go, never a system or developer message and never the last unit. Undefined where
 * that is not enough.
 */
export function withoutOldest(items: readonly CountedItem[], surplus: number): Item[] | undefined {
  const units = unitsOf(items.map(({ item }) => item));
  const lastUnit = units.at(-1);
  const tokensOf = new Map<number, number>();
  for (const [index, unit] of units.entries()) {
    tokensOf.set(unit, (tokensOf.get(unit) ?? 0) + (items[index]?.tokens ?? 0));
  }
  const dropped = new Set<number>();
  let left = surplus;
  for (const [index, { item }] of items.entries()) {
    const unit = units[index];
    if (left <= 0) break;
    if (unit === undefined || unit === lastUnit || dropped.has(unit) || instructs(item)) continue;
    dropped.add(unit);
    left -= tokensOf.get(unit) ?? 0;
  }
  if (left > 0) return undefined;
  return items.filter((_, index) => !dropped.has(units[index] ?? -1)).map(({ item }) => item);
}

function instructs({ content }: Item): boolean {
  if (content.case !== 'message') return false;
  return content.value.role === Role.SYSTEM || content.value.role === Role.DEVELOPER;
}

/** The unit of each item: items with equal numbers belong together. */
function unitsOf(items: readonly Item[]): number[] {
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
