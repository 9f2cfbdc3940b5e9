import { GatewayError } from '../../errors/gateway-error.ts';
import type { Model } from '../../gen/tollgate/v1/catalog_pb.ts';
import { Endpoint, type GenerateRequest } from '../../gen/tollgate/v1/request_pb.ts';
import { measureInput } from '../tokens.ts';
import { fieldName } from './field-names.ts';

/**
 * Refuses an input that can't fit the model's context by the lowest estimate: 400 `context_length_exceeded`, before funds are checked,
 * because no balance would help. Inputs near the limit are counted afterwards.
 */
export function checkLength(request: GenerateRequest, model: Model, { low } = measureInput(request)): void {
  const contextLength = inputTokensMax(request, model);
  if (contextLength !== undefined && low > contextLength) throw tooLong(request, { id: model.id, contextLength }, low);
}

/** Returns the most input tokens of a request; undefined if the model's context is not known. The model reads each prompt of a legacy completion separately. */
export function inputTokensMax(
  { endpoint, items }: Pick<GenerateRequest, 'endpoint' | 'items'>,
  { contextLength }: Pick<Model, 'contextLength'>,
): number | undefined {
  return contextLength === undefined || endpoint !== Endpoint.COMPLETIONS
    ? contextLength
    : contextLength * items.length;
}

/** Returns the error for an input with at least that many tokens, more than the model's context. */
export function tooLong(
  request: GenerateRequest,
  { id, contextLength }: { readonly id: string; readonly contextLength: number },
  tokens: number,
): GatewayError {
  return new GatewayError(
    'context_length_exceeded',
    `The input has at least ${tokens} tokens; ${id} takes ${contextLength} with its answer.`,
    { param: fieldName(request.endpoint, 'items') },
  );
}
