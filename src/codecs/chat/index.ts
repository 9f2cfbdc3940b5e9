import { Protocol } from '../../gen/tollgate/v1/content_pb.ts';
import type { ClientCodec, UpstreamCodec } from '../codec.ts';
import { decodeRequest } from './decode-request.ts';
import { encodeRequest } from './encode-request.ts';
import { parseError } from '../openai-error.ts';
import { openStream, parseWhole } from './parse-events.ts';
import { ChatStreamRenderer } from './render-events.ts';
import { renderWhole } from './render-whole.ts';

/** Chat Completions, for clients and for upstreams. */
export const chatCodec: ClientCodec & UpstreamCodec = {
  protocol: Protocol.CHAT,
  decodeRequest,
  renderStream: decoded => new ChatStreamRenderer(decoded),
  renderWhole,
  encodeRequest,
  parseStream: openStream,
  parseWhole,
  parseError,
};
