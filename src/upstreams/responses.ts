import { responsesCodec } from '../codecs/responses/index.ts';
import type { UpstreamProtocol } from './http-upstream.ts';

/** Responses; the base URL ends in the version ("https://api.openai.com/v1"), as the official client takes it. */
export const responsesProtocol: UpstreamProtocol = {
  codec: responsesCodec,
  authentication: 'bearer',
  path: () => '/responses',
  givesOne: () => true,
};
