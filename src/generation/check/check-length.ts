import { GatewayError } from '../../errors/gateway-error.ts';
import type { Model } from '../../gen/tollgate/v1/catalog_pb.ts';
import { Endpoint, type GenerateRequest } from '../../gen/tollgate/v1/request_pb.ts';
import { measureInput } from '../tokens.ts';
import { fieldName } from './field-names.ts';

/**
 * Throws `context_length_exceeded` if even the lowest estimate of the input exceeds the model's context. This is checked before the funds, because no balance would help. Inputs near the limit are counted later.
 */
export function checkLength(request: GenerateRequest, model: Model, { low } = measureInput(request)): void {
  const contextLength = inputTokensMax(request, model);
  if (contextLength !== undefined && low > contextLength) throw tooLong(request, { id: model.id, contextLength }, low);
}

/** Returns the most input tokens that a request may have; undefined if the model's context length is unknown. In a legacy completion each prompt may have that many, because the model reads them separately. */
export function inputTokensMax(
  { endpoint, items }: Pick<GenerateRequest, 'endpoint' | 'items'>,
  { contextLength }: Pick<Model, 'contextLength'>,
): number | undefined {
  return contextLength === undefined || endpoint !== Endpoint.COMPLETIONS
    ? contextLength
    : contextLength * items.length;
}

/** Returns the error for an input that is longer than the model's context. `tokens`: the fewest tokens that it has. */
export function tooLong(
  request: GenerateRequest,
  { id, contextLength }: { readonly id: string; readonly contextLength: number },
  tokens: number,
): GatewayError {
  return new GatewayError(
    'context_length_exceeded',
    `The input has at least ${tokens} tokens; the context of ${id} is ${contextLength} tokens, with the answer.`,
    { param: fieldName(request.endpoint, 'items') },
  );
}
