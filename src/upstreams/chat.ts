import { chatCodec } from '../codecs/chat/index.ts';
import type { UpstreamProtocol } from './upstream-protocol.ts';

/** Chat Completions; the base URL ends in the version ("https://api.openai.com/v1"), as the official client takes it. */
export const chatProtocol: UpstreamProtocol = {
  codec: chatCodec,
  toolName: /^[a-zA-Z0-9_-]{1,64}$/,
  authentication: 'bearer',
  path: () => '/chat/completions',
};
