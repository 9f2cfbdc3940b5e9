import { Protocol } from '../../gen/tollgate/v1/content_pb.ts';
import type { ClientCodec } from '../codec.ts';
import { decodeRequest } from './decode-request.ts';
import { MessagesStreamRenderer } from './render-events.ts';
import { renderWhole } from './render-whole.ts';

export { decodeCountRequest } from './decode-request.ts';

/** Messages, for clients. */
export const messagesCodec: ClientCodec = {
  protocol: Protocol.MESSAGES,
  decodeRequest,
  renderStream: decoded => new MessagesStreamRenderer(decoded),
  renderWhole,
};
