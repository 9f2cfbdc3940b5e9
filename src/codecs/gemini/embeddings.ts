import type { EmbedRequest } from '../../gen/tollgate/v1/embedding_pb.ts';
import type { Embedded } from '../../generation/embeddings/embedding-upstream.ts';
import type { JsonObject } from '../codec.ts';
import { countIn, defined, fieldJson, listIn, objectIn } from '../json.ts';
import { malformedAnswer, parseAnswerJson, parseNumbers } from '../vector-answer.ts';

/**
 * Returns the JSON body of a batch: one request per text; the protocol does not accept token ids. `model` is the upstream's own name, with
 * or without "models/".
 */
export function encodeEmbedBatch({ inputs, dimensions }: EmbedRequest, model: string): JsonObject {
  const name = model.startsWith('models/') ? model : `models/${model}`;
  return {
    requests: inputs.map(({ text, geminiJson }) => ({
      ...(fieldJson(geminiJson) ?? {
        content: { parts: [{ text: text.toWellFormed() }] },
        ...defined({ outputDimensionality: dimensions }),
      }),
      model: name,
    })),
  };
}

/**
 * Parses the answer of a batch; vectors are in the order of the requests. Throws `UpstreamFailure` `malformed` if it is not valid.
 */
export function parseEmbedBatch(text: string): Omit<Embedded, 'dropped'> {
  const body = objectIn(parseAnswerJson(text));
  if (!Array.isArray(body?.['embeddings'])) throw malformedAnswer('no list of vectors');
  return {
    vectors: listIn(body['embeddings']).map(entry => parseNumbers(objectIn(entry)?.['values'])),
    inputTokens: countIn(objectIn(body['usageMetadata'])?.['promptTokenCount']),
  };
}
