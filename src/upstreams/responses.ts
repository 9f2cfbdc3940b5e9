import { responsesCodec } from '../codecs/responses/index.ts';
import type { UpstreamProtocol } from './upstream-protocol.ts';

/** Responses; the base URL ends in the version ("https://api.openai.com/v1"), as the official client takes it. */
export const responsesProtocol: UpstreamProtocol = {
  codec: responsesCodec,
  toolName: /^[a-zA-Z0-9_-]{1,64}$/,
  authentication: 'bearer',
  path: () => '/responses',
  givesOne: () => true,
};
