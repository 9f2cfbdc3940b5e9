import { Protocol } from '../../gen/tollgate/v1/content_pb.ts';
import { warnOfImages } from '../../generation/made-image.ts';
import type { ClientCodec, UpstreamCodec } from '../codec.ts';
import { decodeRequest } from './decode-request.ts';
import { encodeRequest } from './encode-request.ts';
import { parseError } from './parse-error.ts';
import { MessagesStreamParser, parseWhole } from './parse-events.ts';
import { MessagesStreamRenderer } from './render-events.ts';
import { renderWhole } from './render-whole.ts';

export { answerToolName } from './encode-request.ts';
export { decodeCountRequest } from './decode-request.ts';

/** Messages, for clients and for upstreams. */
export const messagesCodec: ClientCodec & UpstreamCodec = {
  protocol: Protocol.MESSAGES,
  decodeRequest,
  renderStream: decoded => new MessagesStreamRenderer(decoded),
  renderWhole,
  listLost: events => warnOfImages(events, Protocol.MESSAGES),
  encodeRequest,
  parseStream: provider => new MessagesStreamParser(provider),
  parseWhole,
  parseError,
};
