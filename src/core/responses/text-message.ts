import { type Item, ItemStatus, Phase, type Role } from '../../gen/tollgate/v1/content_pb.ts';

/** Returns a message with one text, as a separate turn. */
export function textMessage(role: Role, text: string): Item {
  const value = { $typeName: 'tollgate.v1.TextPart' as const, text, annotations: [], logprobs: [] };
  const part = { $typeName: 'tollgate.v1.Part' as const, content: { case: 'text' as const, value } };
  const message = {
    $typeName: 'tollgate.v1.Message' as const,
    role,
    name: '',
    parts: [part],
    phase: Phase.UNSPECIFIED,
  };
  return {
    $typeName: 'tollgate.v1.Item',
    id: '',
    status: ItemStatus.UNSPECIFIED,
    turn: 0,
    content: { case: 'message', value: message },
  };
}
