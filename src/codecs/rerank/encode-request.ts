import type { RerankRequest } from '../../gen/tollgate/v1/rerank_pb.ts';
import type { JsonObject } from '../codec.ts';
import { defined, fieldJson, objectIn } from '../json.ts';

/**
 * Returns the JSON body of a request. Documents are sent as strings, which every server accepts. They are not requested back, because the
 * gateway has them. `model` is the upstream's own name.
 */
export function encodeRerankRequest(request: RerankRequest, model: string): JsonObject {
  const { query, documents, topN, user, extraJson } = request;
  return {
    ...objectIn(fieldJson(extraJson)),
    model,
    query: query.toWellFormed(),
    documents: documents.map(document => document.toWellFormed()),
    ...defined({ top_n: topN === undefined ? undefined : Math.min(topN, documents.length), user: user || undefined }),
  };
}
