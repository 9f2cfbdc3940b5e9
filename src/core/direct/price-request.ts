import type { Model } from '../../gen/tollgate/v1/catalog_pb.ts';
import { priceSheet } from '../../generation/price.ts';
import { modelUnavailable } from '../routing/failure-policy.ts';
import type { PreparedRequest } from './direct-kind.ts';

/** Returns a request with the listed id of its model, its input tokens and its prices. Throws `model_unavailable` if the model has no working route. */
export function priceRequest<Request extends { readonly model: string }>(
  request: Request,
  model: Model,
  inputTokens: number,
): PreparedRequest<Request> & { readonly inputTokens: number } {
  if (!model.available) throw modelUnavailable(model.id);
  if (model.pricing === undefined) throw new Error(`${model.id} has no prices`);
  return {
    request: { ...request, model: model.id },
    model,
    inputTokens,
    prices: priceSheet(model.pricing, inputTokens),
  };
}
