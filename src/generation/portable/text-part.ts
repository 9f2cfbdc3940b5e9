import type { Part } from '../../gen/tollgate/v1/content_pb.ts';

/** Returns a part of plain text. */
export function textPart(text: string): Part {
  const value = { text, annotations: [], logprobs: [] };
  return {
    $typeName: 'tollgate.v1.Part',
    content: { case: 'text', value: { $typeName: 'tollgate.v1.TextPart', ...value } },
  };
}
