import { encodeRerankRequest } from '../codecs/rerank/encode-request.ts';
import { parseRerankAnswer } from '../codecs/rerank/parse-answer.ts';
import type { RerankRequest } from '../gen/tollgate/v1/rerank_pb.ts';
import type { DirectCall } from '../generation/direct-call.ts';
import type { Reranked } from '../generation/rerank/rerank-upstream.ts';
import { type DirectHttp, postDirectly, withCleanFailures } from './direct-http.ts';

/**
 * Reranks documents over HTTP, at a path below the base URL. Unknown fields of the request are passed on unchanged. Throws what
 * `RerankUpstream.rerank` throws.
 */
export function rerankOverHttp(http: DirectHttp, call: DirectCall<RerankRequest>, path: string): Promise<Reranked> {
  return withCleanFailures(http.target, async () => {
    const body = encodeRerankRequest(call.request, call.model);
    return { ...parseRerankAnswer(await postDirectly(http, call, { path, body })), dropped: [] };
  });
}
