import { answerToolName, messagesCodec } from '../codecs/messages/index.ts';
import type { UpstreamProtocol } from './upstream-protocol.ts';

/** Messages; the base URL has no version ("https://api.anthropic.com"), as the official client takes it. */
export const messagesProtocol: UpstreamProtocol = {
  codec: messagesCodec,
  toolName: /^[a-zA-Z0-9_-]{1,128}$/,
  authentication: 'xApiKey',
  path: () => '/v1/messages',
  // The version in which every model still takes all that a request may have.
  headers: { 'anthropic-version': '2023-06-01' },
  joinedHeader: 'anthropic-beta',
  lacksCustomTools: true,
  mayPause: true,
  givesOne: () => true,
  answerTool: answerToolName,
};
