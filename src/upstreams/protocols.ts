import { chatProtocol } from './chat.ts';
import { geminiProtocol } from './gemini.ts';
import { messagesProtocol } from './messages.ts';
import type { UpstreamProtocol } from './upstream-protocol.ts';
import { responsesProtocol } from './responses.ts';

/** How upstreams are spoken to, by the protocol's name in the configuration; absent: no upstream client speaks it. */
export const protocols: Readonly<Partial<Record<string, UpstreamProtocol>>> = {
  chat: chatProtocol,
  messages: messagesProtocol,
  responses: responsesProtocol,
  gemini: geminiProtocol,
};
