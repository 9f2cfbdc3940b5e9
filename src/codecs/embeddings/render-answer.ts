import type { EmbedResponse, Vector } from '../../gen/tollgate/v1/embedding_pb.ts';
import { toDollars } from '../dollars.ts';

/** Renders an answer in OpenAI's shape; each vector in the encoding that it already has: numbers or base64. */
export function renderEmbedAnswer({ model, vectors, inputTokens, costNanoUsd }: EmbedResponse): object {
  return {
    object: 'list',
    data: vectors.map((vector, index) => ({ object: 'embedding', index, embedding: renderVector(vector) })),
    model,
    usage: { prompt_tokens: inputTokens, total_tokens: inputTokens, cost: toDollars(costNanoUsd) },
  };
}

function renderVector({ numbers, float32 }: Vector): string | readonly number[] {
  if (numbers.length > 0) return numbers;
  return Buffer.from(float32.buffer, float32.byteOffset, float32.length).toString('base64');
}
