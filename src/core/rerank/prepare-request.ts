import type { RerankRequest } from '../../gen/tollgate/v1/rerank_pb.ts';
import { Endpoint } from '../../gen/tollgate/v1/request_pb.ts';
import { PieceCounter } from '../../generation/count-input.ts';
import { checkRerankRequest, countSearches, invalidRerankField } from '../../generation/rerank/check-rerank.ts';
import { loadTokenizer } from '../../generation/tokens.ts';
import type { Credential } from '../../ledger/ledger.ts';
import type { Catalog } from '../catalog/catalog.ts';
import type { DirectEstimate, PreparedRequest } from '../direct/direct-kind.ts';
import { findModel } from '../direct/find-model.ts';
import { estimateInput } from '../direct/input-funds.ts';
import { priceRequest } from '../direct/price-request.ts';
import { fixedFunds } from '../generation/funds.ts';

/** A checked rerank request. */
export interface PreparedRerankRequest extends PreparedRequest<RerankRequest> {
  /** The tokens of the query and all documents, as the gateway counts them. */
  readonly inputTokens: number;
  /** The number of searches: one for every 100 documents or part of that. */
  readonly searches: number;
}

/** Checks a request, finds its model and counts its input. Throws the client's error. Nothing is charged, and no limit is used, yet. */
export async function prepareRerankRequest(
  catalog: Catalog,
  request: RerankRequest,
  credential: Pick<Credential, 'allowedModels'>,
): Promise<PreparedRerankRequest> {
  checkRerankRequest(request);
  const model = findModel(catalog, request, Endpoint.RERANK, credential);
  const inputTokens = await countInputs(request, model.contextLength);
  return { ...priceRequest(request, model, inputTokens), searches: countSearches(request) };
}

/** Counts the tokens of the query and all documents. Throws `validation_error` if a document and the query together are longer than the model's context. */
async function countInputs({ query, documents, extraJson }: RerankRequest, contextLength = Infinity): Promise<number> {
  // A text that is too long by its lowest estimate is not counted.
  const counter = new PieceCounter(await loadTokenizer());
  const queryTokens = await counter.count(query, contextLength);
  if (queryTokens > contextLength) {
    throw invalidRerankField('query', `must have at most ${contextLength} tokens with this model`);
  }
  // A model may read members that the gateway does not know.
  let sum = queryTokens + (await counter.count(extraJson));
  for (const [index, document] of documents.entries()) {
    const tokens = await counter.count(document, contextLength);
    if (queryTokens + tokens > contextLength) {
      const message = `must have at most ${contextLength} tokens with this model, the query included`;
      throw invalidRerankField(`documents[${index}]`, message);
    }
    sum += tokens;
  }
  return sum;
}

/** Returns the most that a request can use: its searches, or its input if the model is priced by tokens. */
export function estimateRerank(prepared: PreparedRerankRequest): DirectEstimate {
  const { searches, prices } = prepared;
  // The price of a search is in the field `image`; null: the model is priced by tokens.
  if (prices.image === null) return estimateInput(prepared);
  return { funds: fixedFunds((prices.image * BigInt(searches) + 999n) / 1000n) };
}
