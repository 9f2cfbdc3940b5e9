import { type Item, Role } from '../gen/tollgate/v1/content_pb.ts';

/**
 * Numbers the model's turns from 1. The reasoning, message and calls of one turn have the same number, so that protocols with messages can render them as one message. All other items have turn 0. Source: docs/architecture.md "The form of a generation".
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
    // Two adjacent messages are separate turns.
    if (last === undefined || (content.case === 'message' && last.case === 'message')) turn += 1;
    last = content;
    return item.turn === turn ? item : { ...item, turn };
  });
}

function isOfModel(content: Item['content']): boolean {
  if (content.case === 'message') return content.value.role === Role.ASSISTANT;
  return content.case === 'reasoning' || content.case === 'toolCall' || content.case === 'serverTool';
}
