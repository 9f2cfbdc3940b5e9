/** The protocols of upstreams that generate text. Tables of tests are typed by them, so that the compiler requires a row for a new protocol. */
import type { ProtocolName } from '../../src/config/settings.ts';

/** The name of a protocol whose upstreams generate text. */
export type TextProtocol = Exclude<ProtocolName, 'images'>;

/** The path of the base URL, by protocol; '' if the base URL is the origin. */
export const basePaths: Readonly<Record<TextProtocol, string>> = {
  chat: '/v1',
  responses: '/v1',
  messages: '',
  gemini: '',
};

/** All these protocols. */
export const textProtocols = Object.keys(basePaths) as TextProtocol[];
