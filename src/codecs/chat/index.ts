import { Protocol } from '../../gen/tollgate/v1/content_pb.ts';
import type { ClientCodec } from '../codec.ts';
import { decodeRequest } from './decode-request.ts';
import { ChatStreamRenderer } from './render-events.ts';
import { renderWhole } from './render-whole.ts';

/** Chat Completions. */
export const chatCodec: ClientCodec = {
  protocol: Protocol.CHAT,
  decodeRequest,
  renderStream: decoded => new ChatStreamRenderer(decoded),
  renderWhole,
};
