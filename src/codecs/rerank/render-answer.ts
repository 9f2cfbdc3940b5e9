import type { RerankResponse } from '../../gen/tollgate/v1/rerank_pb.ts';
import { toDollars } from '../dollars.ts';

/** Renders an answer in the format of Cohere, Jina and compatible servers. */
export function renderRerankAnswer(answer: RerankResponse): object {
  const { requestId, model, results, totalTokens, searchUnits, costNanoUsd } = answer;
  return {
    id: requestId,
    model,
    results: results.map(({ index, relevanceScore, document }) => ({
      index,
      relevance_score: relevanceScore,
      ...(document === undefined ? {} : { document: { text: document } }),
    })),
    usage: { total_tokens: totalTokens, search_units: searchUnits, cost: toDollars(costNanoUsd) },
  };
}
