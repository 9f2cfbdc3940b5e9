import { GatewayError } from '../../errors/gateway-error.ts';
import { Endpoint } from '../../gen/tollgate/v1/request_pb.ts';
import type { EmbedRequest } from '../../gen/tollgate/v1/embedding_pb.ts';

/** The most inputs of a request. */
export const inputsMax = 2048;
/** The most dimensions that can be requested: more than any model has. */
const dimensionsMax = 65_536;

/** Returns the name of an input in errors, as in the public interface. */
export function inputName({ listed, endpoint }: Pick<EmbedRequest, 'listed' | 'endpoint'>, index: number): string {
  if (endpoint === Endpoint.GEMINI_EMBEDDINGS) return listed ? `requests.${index}.content` : 'content';
  return listed ? `input[${index}]` : 'input';
}

/** Returns the name of the length of the vectors in errors, as in the public interface. */
export function dimensionsName({ listed, endpoint }: Pick<EmbedRequest, 'listed' | 'endpoint'>): string {
  if (endpoint !== Endpoint.GEMINI_EMBEDDINGS) return 'dimensions';
  return listed ? 'requests.0.outputDimensionality' : 'outputDimensionality';
}

/** Returns a `validation_error` that names a field. */
export function invalidEmbedField(param: string, message: string): GatewayError {
  const path = param.split(/[.[\]]+/).filter(step => step !== '');
  return new GatewayError('validation_error', `\`${param}\` ${message}.`, {
    param,
    violations: [{ path, message, type: 'invalid_value' }],
  });
}

/** Checks what can be checked without the model. Throws `validation_error` with the name of the field. */
export function checkEmbedRequest(request: EmbedRequest): void {
  const { inputs, dimensions } = request;
  if (request.model === '') throw invalidEmbedField('model', 'must not be empty');
  if (inputs.length === 0 || inputs.length > inputsMax) {
    throw invalidEmbedField('input', `must have 1 to ${inputsMax} entries`);
  }
  for (const [index, { text, tokens }] of inputs.entries()) {
    if (text === '' && tokens.length === 0) throw invalidEmbedField(inputName(request, index), 'must not be empty');
    if (text !== '' && tokens.length > 0) {
      throw invalidEmbedField(inputName(request, index), 'must be a text or token ids, not both');
    }
  }
  if (dimensions !== undefined && (dimensions < 1 || dimensions > dimensionsMax)) {
    throw invalidEmbedField(dimensionsName(request), `must be an integer from 1 to ${dimensionsMax}`);
  }
}
