import { Protocol } from '../../gen/tollgate/v1/content_pb.ts';
import type { UpstreamCodec } from '../codec.ts';
import { encodeRequest } from './encode-request.ts';
import { findTraits } from './model-traits.ts';
import { parseError } from './parse-error.ts';
import { GeminiStreamParser, parseWhole } from './parse-events.ts';

/** Returns whether a model gives only one answer per request (no `candidateCount`). */
export function givesOneAnswer(model: string): boolean {
  return !findTraits(model).allowsSeveralAnswers;
}

/** Gemini's generateContent, for upstreams. */
export const geminiCodec: UpstreamCodec = {
  protocol: Protocol.GEMINI,
  encodeRequest,
  parseStream: provider => new GeminiStreamParser(provider),
  parseWhole,
  parseError,
};

export { decodeCountRequest as decodeGeminiCount, decodeRequest as decodeGemini } from './decode-request.ts';
export { decodeBatchEmbedRequest, decodeEmbedRequest, renderEmbedding, renderEmbeddings } from './embed-request.ts';
export { googleError, googleStatus } from './error.ts';
export { AnswerRenderer, renderWhole as renderGemini } from './render-answer.ts';
