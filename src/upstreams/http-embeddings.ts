import { encodeEmbedRequest } from '../codecs/embeddings/encode-request.ts';
import { parseEmbedAnswer } from '../codecs/embeddings/parse-answer.ts';
import { encodeEmbedBatch, parseEmbedBatch } from '../codecs/gemini/embeddings.ts';
import type { JsonObject, UpstreamCodec } from '../codecs/codec.ts';
import { fieldJson } from '../codecs/json.ts';
import { GatewayError } from '../errors/gateway-error.ts';
import type { EmbedRequest, Vector } from '../gen/tollgate/v1/embedding_pb.ts';
import type { Embedded, EmbeddingCall } from '../generation/embeddings/embedding-upstream.ts';
import { UpstreamFailure } from '../generation/upstream.ts';
import { fetchBody } from './fetch-body.ts';
import type { HttpTarget } from './http-target.ts';
import { outgoingJson } from './outgoing-json.ts';
import { refuseRouting } from './passthrough.ts';

/** How embeddings are asked for over a wire protocol. */
export interface EmbeddingProtocol {
  /** What follows the base URL for a model. */
  path(model: string): string;
  encode(request: EmbedRequest, model: string): JsonObject;
  parse(text: string): Omit<Embedded, 'dropped'>;
  /** The most inputs of one call. */
  readonly inputsMax: number;
  /** Members that are passed on as they came; false: there are none in this protocol. */
  readonly takesExtra: boolean;
  /** Providers take token ids, unless their configuration says otherwise. */
  readonly takesTokenIds: boolean;
}

/** OpenAI's shape, which compatible servers share. */
export const openaiEmbeddings: EmbeddingProtocol = {
  path: () => '/embeddings',
  encode: encodeEmbedRequest,
  parse: parseEmbedAnswer,
  inputsMax: 2048,
  takesExtra: true,
  takesTokenIds: true,
};

/** Gemini's. Source: Gemini API reference, models.batchEmbedContents: at most 100 requests in a batch. */
export const geminiEmbeddings: EmbeddingProtocol = {
  path: model => `/v1beta/models/${encodeURIComponent(model.replace(/^models\//, ''))}:batchEmbedContents`,
  encode: encodeEmbedBatch,
  parse: parseEmbedBatch,
  inputsMax: 100,
  takesExtra: false,
  takesTokenIds: false,
};

/** What is the same for all calls to a provider. */
export interface HttpEmbedding {
  readonly target: HttpTarget;
  readonly protocol: EmbeddingProtocol;
  /** Reads the provider's errors. */
  readonly codec: Pick<UpstreamCodec, 'parseError'>;
  /** The most bytes of an answer. */
  readonly bytesMax: number;
}

/** Embeds over HTTP, in as many calls, one after the other, as the provider's maximum asks for. Throws what `EmbeddingUpstream.embed` throws. */
export async function embedOverHttp(http: HttpEmbedding, call: EmbeddingCall): Promise<Embedded> {
  const { protocol, target } = http;
  const { request, signal } = call;
  signal.throwIfAborted();
  const dropped = protocol.takesExtra ? [] : Object.keys(fieldJson(request.extraJson) ?? {});
  refuseDropped(request, dropped);
  const vectors: Vector[] = [];
  let inputTokens: number | undefined = 0;
  try {
    for (let at = 0; at < request.inputs.length; at += protocol.inputsMax) {
      const inputs = request.inputs.slice(at, at + protocol.inputsMax);
      const part = await embedPart(http, call, { ...request, inputs });
      // Else the vectors of one part would stand for the inputs of another.
      if (part.vectors.length !== inputs.length) {
        throw new UpstreamFailure('malformed', { cause: new Error('the answer has another number of vectors') });
      }
      vectors.push(...part.vectors);
      inputTokens =
        inputTokens === undefined || part.inputTokens === undefined ? undefined : inputTokens + part.inputTokens;
    }
  } catch (thrown) {
    throw thrown instanceof UpstreamFailure ? target.clean(thrown) : thrown;
  }
  return { vectors, inputTokens, dropped };
}

async function embedPart(
  { target, protocol, codec, bytesMax }: HttpEmbedding,
  { hold, model, signal, watch }: EmbeddingCall,
  request: EmbedRequest,
): Promise<Omit<Embedded, 'dropped'>> {
  const defaults = { accept: 'application/json', 'user-agent': 'tollgate' };
  const headers = target.headers(defaults, { 'content-type': 'application/json' });
  const body = outgoingJson(refuseRouting(protocol.encode(request, model)));
  const outgoing = { asker: hold, model, path: target.path(protocol.path(model)), headers, body, codec, watch };
  const answer = await fetchBody(target, outgoing, bytesMax, signal);
  return protocol.parse(answer.toString('utf8'));
}

function refuseDropped({ strict }: EmbedRequest, dropped: readonly string[]): void {
  const [param] = dropped;
  if (!strict || param === undefined) return;
  const fields = dropped.join(', ');
  throw new GatewayError('unsupported_parameter', `The model’s provider does not know ${fields}.`, { param });
}
