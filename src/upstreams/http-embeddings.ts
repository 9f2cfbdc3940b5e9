import { encodeEmbedRequest } from '../codecs/embeddings/encode-request.ts';
import { parseEmbedAnswer } from '../codecs/embeddings/parse-answer.ts';
import { encodeEmbedBatch, parseEmbedBatch } from '../codecs/gemini/embeddings.ts';
import type { JsonObject } from '../codecs/codec.ts';
import { fieldJson } from '../codecs/json.ts';
import type { EmbedRequest, Vector } from '../gen/tollgate/v1/embedding_pb.ts';
import type { DirectCall } from '../generation/direct-call.ts';
import type { Embedded } from '../generation/embeddings/embedding-upstream.ts';
import { refuseLoss } from '../generation/portable/portable-request.ts';
import { UpstreamFailure } from '../generation/upstream.ts';
import { type DirectHttp, postDirectly, withCleanFailures } from './direct-http.ts';

/** How embeddings are requested in a wire protocol. */
export interface EmbeddingProtocol {
  /** Returns the path below the base URL for a model. */
  path(model: string): string;
  encode(request: EmbedRequest, model: string): JsonObject;
  parse(text: string): Omit<Embedded, 'dropped'>;
  /** The most inputs of one call. */
  readonly inputsMax: number;
  /** Returns the members of a request that the protocol does not allow, by the client's names. */
  unsent(request: EmbedRequest): string[];
  /** True if providers accept token ids, unless their configuration says otherwise. */
  readonly takesTokenIds: boolean;
}

/** The protocol of OpenAI and compatible servers. */
export const openaiEmbeddings: EmbeddingProtocol = {
  path: () => '/embeddings',
  encode: encodeEmbedRequest,
  parse: parseEmbedAnswer,
  inputsMax: 2048,
  unsent: ({ geminiMembers }) => geminiMembers,
  takesTokenIds: true,
};

/** Gemini's protocol. Source: Gemini API reference, models.batchEmbedContents: at most 100 requests in a batch. */
export const geminiEmbeddings: EmbeddingProtocol = {
  path: model => `/v1beta/models/${encodeURIComponent(model.replace(/^models\//, ''))}:batchEmbedContents`,
  encode: encodeEmbedBatch,
  parse: parseEmbedBatch,
  inputsMax: 100,
  unsent: ({ extraJson }) => Object.keys(fieldJson(extraJson) ?? {}),
  takesTokenIds: false,
};

/** The parts that all embeddings calls to one provider share. */
export interface HttpEmbedding extends DirectHttp {
  readonly protocol: EmbeddingProtocol;
}

/**
 * Makes embeddings over HTTP, in as many sequential calls as the provider's maximum of inputs requires. Throws what `EmbeddingUpstream.embed` throws.
 */
export async function embedOverHttp(http: HttpEmbedding, call: DirectCall<EmbedRequest>): Promise<Embedded> {
  const { protocol, target } = http;
  const { request } = call;
  call.signal.throwIfAborted();
  const dropped = protocol.unsent(request);
  refuseLoss(request, dropped);
  return withCleanFailures(target, async () => {
    const vectors: Vector[] = [];
    let inputTokens: number | undefined = 0;
    for (let at = 0; at < request.inputs.length; at += protocol.inputsMax) {
      const inputs = request.inputs.slice(at, at + protocol.inputsMax);
      const post = { path: protocol.path(call.model), body: protocol.encode({ ...request, inputs }, call.model) };
      const part = protocol.parse(await postDirectly(http, call, post));
      // Checked here, because otherwise the vectors of one call could be taken for those of inputs of another call.
      if (part.vectors.length !== inputs.length) {
        throw new UpstreamFailure('malformed', { cause: new Error('the answer has another number of vectors') });
      }
      vectors.push(...part.vectors);
      inputTokens =
        inputTokens === undefined || part.inputTokens === undefined ? undefined : inputTokens + part.inputTokens;
    }
    return { vectors, inputTokens, dropped };
  });
}
