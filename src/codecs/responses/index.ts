import { Protocol } from '../../gen/tollgate/v1/content_pb.ts';
import type { ClientCodec, UpstreamCodec } from '../codec.ts';
import { decodeRequest } from './decode-request.ts';
import { encodeRequest } from './encode-request.ts';
import { parseError } from './parse-error.ts';
import { parseWhole, ResponsesStreamParser } from './parse-events.ts';
import { ResponsesStreamRenderer } from './render-events.ts';
import { renderWhole } from './render-whole.ts';

export { decodeContinuingRequest, decodeRequest, type ResponsesRequest } from './decode-request.ts';
export {
  decodeLabels,
  decodeNewConversation,
  decodeNewItems,
  renderConversation,
  renderItemPage,
} from './conversation.ts';
export { keepAlive } from './render-events.ts';
export { renderItem } from './render-item.ts';
export { renderResource, type ResponseFacts } from './resource.ts';
export { toOutcome, ResponseFold, type ResponseOutcome, type ResponseStatus } from '../../generation/response-fold.ts';
export { doneFrame, type ResponseEvent, ResponseRenderer, sseFrames } from './stream.ts';
export { renderUsage } from './usage.ts';

/** Responses, for clients and for upstreams. */
export const responsesCodec: ClientCodec & UpstreamCodec = {
  protocol: Protocol.RESPONSES,
  decodeRequest,
  renderStream: decoded => new ResponsesStreamRenderer(decoded),
  renderWhole,
  encodeRequest,
  parseStream: provider => new ResponsesStreamParser(provider),
  parseWhole,
  parseError,
};
