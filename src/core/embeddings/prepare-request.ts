import { GatewayError } from '../../errors/gateway-error.ts';
import type { Model } from '../../gen/tollgate/v1/catalog_pb.ts';
import type { EmbedRequest } from '../../gen/tollgate/v1/embedding_pb.ts';
import { Endpoint } from '../../gen/tollgate/v1/request_pb.ts';
import { PieceCounter } from '../../generation/count-input.ts';
import {
  checkEmbedRequest,
  dimensionsName,
  inputName,
  invalidEmbedField,
} from '../../generation/embeddings/check-embed-request.ts';
import { isVocabulary, loadDecoder } from '../../generation/embeddings/token-ids.ts';
import { loadTokenizer } from '../../generation/tokens.ts';
import type { Credential } from '../../ledger/ledger.ts';
import type { Catalog } from '../catalog/catalog.ts';
import type { PreparedRequest } from '../direct/direct-kind.ts';
import { findModel } from '../direct/find-model.ts';
import { priceRequest } from '../direct/price-request.ts';

/** A checked embeddings request. */
export interface PreparedEmbedRequest extends PreparedRequest<EmbedRequest> {
  /** The tokens of all inputs together, as the gateway counts them. */
  readonly inputTokens: number;
}

/** Returns the path that a request came on. */
export function findEndpoint({ endpoint }: EmbedRequest): Endpoint {
  return endpoint === Endpoint.GEMINI_EMBEDDINGS ? endpoint : Endpoint.EMBEDDINGS;
}

/** Checks a request, finds its model and counts its input. Throws the client's error. Nothing is charged, and no limit is used, yet. */
export async function prepareEmbedRequest(
  catalog: Catalog,
  request: EmbedRequest,
  credential: Pick<Credential, 'allowedModels'>,
): Promise<PreparedEmbedRequest> {
  checkEmbedRequest(request);
  const model = findModel(catalog, request, findEndpoint(request), credential);
  if (request.dimensions !== undefined && !model.dimensions) {
    throw new GatewayError('unsupported_feature', `${model.id} has vectors of one length only.`, {
      param: dimensionsName(request),
      tip: 'Leave it out, or choose a model with `capabilities.dimensions`.',
    });
  }
  return priceRequest(request, model, await countInputs(request, model));
}

/** Counts all inputs. Throws `validation_error` for one that is longer than the model's context. */
async function countInputs(request: EmbedRequest, { contextLength = Infinity }: Model): Promise<number> {
  const counter = new PieceCounter(await loadTokenizer());
  // A model may read members that the gateway does not know.
  let sum = await counter.count(request.extraJson);
  for (const [index, { text, tokens }] of request.inputs.entries()) {
    // A text that is too long by its lowest estimate is refused without being counted.
    const count = tokens.length + (await counter.count(text, contextLength));
    if (count > contextLength) {
      throw invalidEmbedField(inputName(request, index), `must have at most ${contextLength} tokens with this model`);
    }
    sum += count;
  }
  return sum;
}

/** Returns the request with texts in place of token ids. Throws `unsupported_feature` if the model’s vocabulary is not known, `validation_error` for ids that are not in it. */
export async function withTexts(request: EmbedRequest, { id, tokenizer }: Model): Promise<EmbedRequest> {
  if (request.inputs.every(({ tokens }) => tokens.length === 0)) return request;
  if (!isVocabulary(tokenizer)) {
    throw new GatewayError('unsupported_feature', `${id} takes texts, not token ids.`, {
      param: 'input',
      tip: 'Send strings. The operator can name the model’s vocabulary with `tokenizer` in its configuration.',
    });
  }
  const decode = await loadDecoder(tokenizer);
  const inputs = request.inputs.map((input, index) => {
    if (input.tokens.length === 0) return input;
    const text = decode(input.tokens);
    if (text !== undefined && text !== '') return { ...input, text, tokens: [] };
    throw invalidEmbedField(inputName(request, index), `must hold ids of the vocabulary ${tokenizer}`);
  });
  return { ...request, inputs };
}
