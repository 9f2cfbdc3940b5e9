import { GatewayError } from '../../errors/gateway-error.ts';
import type { Model } from '../../gen/tollgate/v1/catalog_pb.ts';
import type { EmbedRequest } from '../../gen/tollgate/v1/embedding_pb.ts';
import { Endpoint } from '../../gen/tollgate/v1/request_pb.ts';
import { countInPieces } from '../../generation/count-input.ts';
import { checkEmbedRequest, inputName, invalidEmbedField } from '../../generation/embeddings/check-embed-request.ts';
import { isVocabulary, loadDecoder } from '../../generation/embeddings/token-ids.ts';
import { type PriceSheet, priceSheet } from '../../generation/price.ts';
import { estimateTokens, loadTokenizer } from '../../generation/tokens.ts';
import type { Credential, FundsEstimate } from '../../ledger/ledger.ts';
import type { Catalog } from '../catalog/catalog.ts';
import { readBatchTerms } from '../generation/funds.ts';
import { modelUnavailable } from '../routing/failure-policy.ts';

/** A checked request: what to embed, with which model, at which price. */
export interface EmbedOrder {
  /** `model` is the listed id. */
  readonly request: EmbedRequest;
  readonly model: Model;
  /** Of all inputs, as the gateway counts them. */
  readonly inputTokens: number;
  readonly prices: PriceSheet;
  /** The factor of a batch, in thousandths; undefined: it is no item of one. */
  readonly multiplierPermille: number | undefined;
}

/** Checks a request, finds its model and counts its input. `isBatch`: it is an item of a batch. Throws what the caller is refused with; nothing is charged or counted yet. */
export async function takeEmbedOrder(
  catalog: Catalog,
  request: EmbedRequest,
  { allowedModels }: Pick<Credential, 'allowedModels'>,
  isBatch = false,
): Promise<EmbedOrder> {
  checkEmbedRequest(request);
  const { model } = catalog.resolve(request.model, { endpoint: Endpoint.EMBEDDINGS, visible: allowedModels });
  if (allowedModels !== null && !allowedModels.includes(model.id)) {
    throw new GatewayError('model_not_allowed', `This key may not use ${model.id}.`, { param: 'model' });
  }
  if (request.dimensions !== undefined && !model.dimensions) {
    throw new GatewayError('unsupported_feature', `${model.id} has vectors of one length only.`, {
      param: 'dimensions',
      tip: 'Leave dimensions out, or choose a model with `capabilities.dimensions`.',
    });
  }
  const inputTokens = await countInputs(request, model);
  if (!model.available) throw modelUnavailable(model.id);
  if (model.pricing === undefined) throw new Error(`${model.id} has no prices`);
  return {
    request: { ...request, model: model.id },
    model,
    inputTokens,
    prices: priceSheet(model.pricing, inputTokens),
    multiplierPermille: isBatch ? readBatchTerms(model).multiplierPermille : undefined,
  };
}

/** Counts all inputs. Throws `validation_error` for one that is longer than the model's context. */
async function countInputs(request: EmbedRequest, { contextLength = Infinity }: Model): Promise<number> {
  const tokenizer = await loadTokenizer();
  let sum = 0;
  for (const [index, { text, tokens }] of request.inputs.entries()) {
    // Without counting what is too long by any count.
    const isOver = estimateTokens(text).low > contextLength;
    const count = isOver ? Infinity : tokens.length + (await countInPieces([text], tokenizer));
    if (count > contextLength) {
      throw invalidEmbedField(inputName(request, index), `must have at most ${contextLength} tokens with this model`);
    }
    sum += count;
  }
  return sum;
}

/** What a request costs at most: its input. Undefined where it costs nothing. */
export function embedFunds({ inputTokens, prices, multiplierPermille = 1000 }: EmbedOrder): FundsEstimate | undefined {
  const picoUsd = prices.input ?? 0n;
  if (picoUsd === 0n) return undefined;
  const noOutput = { outputPicoUsd: 0n, outputTokensMin: 0, outputTokensWanted: 0 };
  return {
    inputTokens,
    inputNanoUsd: (BigInt(inputTokens) * picoUsd * BigInt(multiplierPermille) + 999_999n) / 1_000_000n,
    ...noOutput,
    plan: true,
    freeDaily: multiplierPermille === 1000,
  };
}

/** Returns a request with its token ids as texts. Throws `unsupported_feature` if the model’s vocabulary is not known, `validation_error` for ids that it lacks. */
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
