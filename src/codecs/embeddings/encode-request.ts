import { type EmbeddingInput, type EmbedRequest, VectorForm } from '../../gen/tollgate/v1/embedding_pb.ts';
import type { JsonObject } from '../codec.ts';
import { defined, fieldJson, objectIn } from '../json.ts';

/**
 * Returns the JSON body of a request in OpenAI's shape; vectors are requested in the client's format. `model` is the
 * upstream's own name.
 */
export function encodeEmbedRequest(request: EmbedRequest, model: string): JsonObject {
  const { inputs, listed, form, dimensions, user, extraJson } = request;
  const [first] = inputs;
  return {
    ...objectIn(fieldJson(extraJson)),
    model,
    input: listed || inputs.length > 1 || first === undefined ? inputs.map(encodeInput) : encodeInput(first),
    encoding_format: form === VectorForm.FLOAT32 ? 'base64' : 'float',
    ...defined({ dimensions, user: user || undefined }),
  };
}

function encodeInput({ text, tokens }: EmbeddingInput): string | number[] {
  return tokens.length > 0 ? tokens : text.toWellFormed();
}
