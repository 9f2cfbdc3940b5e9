import { GatewayError } from '../../errors/gateway-error.ts';
import type { RerankRequest } from '../../gen/tollgate/v1/rerank_pb.ts';
import { UpstreamFailure } from '../upstream.ts';
import type { Ranked } from './rerank-upstream.ts';

/** The most documents of a request. */
export const documentsMax = 10_000;
/** How many documents one search unit covers. Source: Cohere's pricing page, "search unit". */
const documentsPerUnit = 100;

/** Returns a `validation_error` that names a field. */
export function invalidRerankField(param: string, message: string): GatewayError {
  const path = param.split(/[.[\]]+/).filter(step => step !== '');
  return new GatewayError('validation_error', `\`${param}\` ${message}.`, {
    param,
    violations: [{ path, message, type: 'invalid_value' }],
  });
}

/** Checks what can be checked without the model. Throws `validation_error` with the name of the field. */
export function checkRerankRequest({ model, query, documents, topN }: RerankRequest): void {
  if (model === '') throw invalidRerankField('model', 'must not be empty');
  if (query === '') throw invalidRerankField('query', 'must not be empty');
  if (documents.length === 0 || documents.length > documentsMax) {
    throw invalidRerankField('documents', `must have 1 to ${documentsMax} entries`);
  }
  const empty = documents.indexOf('');
  if (empty !== -1) throw invalidRerankField(`documents[${empty}]`, 'must not be empty');
  if (topN === 0) throw invalidRerankField('top_n', 'must be an integer of at least 1');
}

/** Returns how many searches a request counts as: one for each 100 documents or part of that. */
export function countSearches({ documents }: Pick<RerankRequest, 'documents'>): number {
  return Math.ceil(documents.length / documentsPerUnit);
}

/** Returns how many documents the answer to a request has. */
export function countWanted({ documents, topN = documents.length }: Pick<RerankRequest, 'documents' | 'topN'>): number {
  return Math.min(topN, documents.length);
}

/**
 * Returns the requested number of best documents, best first; equal scores keep their order. The upstream may have ranked more documents than requested. Throws `UpstreamFailure` `malformed` if it ranked too few, or one twice, or one that does not exist, or if a score is not finite.
 */
export function bestFirst(results: readonly Ranked[], request: Pick<RerankRequest, 'documents' | 'topN'>): Ranked[] {
  const { documents } = request;
  const wanted = countWanted(request);
  if (results.length !== wanted && results.length !== documents.length) {
    throw malformed(`${results.length} results for ${wanted}`);
  }
  const seen = new Set<number>();
  for (const { index, relevanceScore } of results) {
    if (!Number.isInteger(index) || index < 0 || index >= documents.length)
      throw malformed('an index without a document');
    if (seen.has(index)) throw malformed(`document ${index} twice`);
    if (!Number.isFinite(relevanceScore)) throw malformed(`a score of document ${index} that is not finite`);
    seen.add(index);
  }
  return results.toSorted((one, other) => other.relevanceScore - one.relevanceScore).slice(0, wanted);
}

function malformed(what: string): UpstreamFailure {
  return new UpstreamFailure('malformed', { cause: new Error(`the answer has ${what}`) });
}
