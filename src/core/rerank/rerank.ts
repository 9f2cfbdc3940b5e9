import {
  type RerankRequest,
  type RerankResponse,
  RerankResponseSchema,
  type RerankResult,
} from '../../gen/tollgate/v1/rerank_pb.ts';
import { Endpoint } from '../../gen/tollgate/v1/request_pb.ts';
import { bestFirst } from '../../generation/rerank/check-rerank.ts';
import type { Ranked, Reranked } from '../../generation/rerank/rerank-upstream.ts';
import { noUsage } from '../../generation/usage-buckets.ts';
import type { DirectKind } from '../direct/direct-kind.ts';
import { countInput } from '../direct/input-funds.ts';
import { estimateRerank, type PreparedRerankRequest, prepareRerankRequest } from './prepare-request.ts';

/** The direct endpoint for reranking. */
export const rerank: DirectKind<RerankRequest, RerankResponse, PreparedRerankRequest, Reranked> = {
  findEndpoint: () => Endpoint.RERANK,
  operation: 'rerank',
  answer: RerankResponseSchema,
  prepare: prepareRerankRequest,
  estimate: estimateRerank,

  async attempt({ reranker, name }, { request }, call) {
    if (reranker === undefined) throw new Error(`${name.provider} reranks nothing`);
    const reranked = await reranker.rerank(call);
    return { ...reranked, results: bestFirst(reranked.results, request) };
  },

  finish(prepared, { results, inputTokens, searchUnits: reported }, common) {
    // A report of 0 searches is ignored, because there are documents.
    const searchUnits = reported || prepared.searches;
    const usageSource = reported ? 'reported' : 'estimated';
    const isBySearch = prepared.prices.image !== null;
    // Each document is read with the query.
    const inputMax = (prepared.model.contextLength ?? Infinity) * prepared.request.documents.length;
    return {
      used: isBySearch
        ? { state: 'completed', usage: { ...noUsage, images: searchUnits }, usageSource }
        : countInput(inputTokens, prepared.inputTokens, inputMax),
      response: {
        $typeName: 'tollgate.v1.RerankResponse',
        ...common,
        results: results.map(ranked => toResult(ranked, prepared.request)),
        totalTokens: inputTokens || prepared.inputTokens,
        searchUnits,
      },
    };
  },
};

function toResult({ index, relevanceScore }: Ranked, { documents, returnDocuments }: RerankRequest): RerankResult {
  const document = returnDocuments ? documents[index] : undefined;
  const result = { $typeName: 'tollgate.v1.RerankResult', index, relevanceScore } as const;
  return document === undefined ? result : { ...result, document };
}
