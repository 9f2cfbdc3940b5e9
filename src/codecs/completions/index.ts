import { Protocol } from '../../gen/tollgate/v1/content_pb.ts';
import { warnOfImages } from '../../generation/made-image.ts';
import type { ClientCodec, UpstreamCodec } from '../codec.ts';
import { parseError } from '../openai-error.ts';
import { decodeRequest } from './decode-request.ts';
import { encodeRequest } from './encode-request.ts';
import { openStream, parseWhole } from './parse-events.ts';
import { CompletionsStreamRenderer } from './render-events.ts';
import { renderWhole } from './render-whole.ts';

/** The Completions interface before Chat, for clients and for upstreams. */
export const completionsCodec: ClientCodec & UpstreamCodec = {
  protocol: Protocol.COMPLETIONS,
  decodeRequest,
  renderStream: decoded => new CompletionsStreamRenderer(decoded),
  renderWhole,
  listLost: events => warnOfImages(events, Protocol.COMPLETIONS),
  encodeRequest,
  parseStream: openStream,
  parseWhole,
  parseError,
};
