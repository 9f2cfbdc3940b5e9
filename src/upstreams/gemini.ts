import { geminiCodec, lacksCandidates } from '../codecs/gemini/index.ts';
import type { UpstreamProtocol } from './upstream-protocol.ts';

/** Gemini; the base URL has no version ("https://generativelanguage.googleapis.com"), as the official client takes it. */
export const geminiProtocol: UpstreamProtocol = {
  codec: geminiCodec,
  toolName: /^[a-zA-Z_][a-zA-Z0-9_.:-]{0,127}$/,
  authentication: 'xGoogApiKey',
  path: (model, whole) =>
    `/v1beta/models/${pathOfModel(model)}:${whole ? 'generateContent' : 'streamGenerateContent?alt=sse'}`,
  lacksCustomTools: true,
  givesOne: lacksCandidates,
};

/** The name as a piece of a path; "models/…" is how the provider itself lists them. */
function pathOfModel(model: string): string {
  return encodeURIComponent(model.replace(/^models\//, ''));
}
