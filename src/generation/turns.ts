import { type Item, Role } from '../gen/tollgate/v1/content_pb.ts';

/**
 * Numbers the turns of a conversation of items: what the model thought, said and called in one go belongs together, so that protocols with messages can
 * make one of it. What others say is a turn of its own (0). Source: wire.md C1.
 */
export function renumberTurns(items: readonly Item[]): Item[] {
  let turn = 0;
  let last: Item['content'] | undefined;
  return items.map(item => {
    const { content } = item;
    if (!isOfModel(content)) {
      last = undefined;
      return item.turn === 0 ? item : { ...item, turn: 0 };
    }
    // Two messages side by side stay two.
    if (last === undefined || (content.case === 'message' && last.case === 'message')) turn += 1;
    last = content;
    return item.turn === turn ? item : { ...item, turn };
  });
}

function isOfModel(content: Item['content']): boolean {
  if (content.case === 'message') return content.value.role === Role.ASSISTANT;
  return content.case === 'reasoning' || content.case === 'toolCall' || content.case === 'serverTool';
}
