import { chatCodec } from '../codecs/chat/index.ts';
import { completionsCodec } from '../codecs/completions/index.ts';
import { decodeCountRequest, messagesCodec } from '../codecs/messages/index.ts';
import { decodeContinuingRequest, decodeRequest } from '../codecs/responses/index.ts';
import { parseJson } from './json-body.ts';
import { GatewayError } from '../errors/gateway-error.ts';
import { Protocol } from '../gen/tollgate/v1/content_pb.ts';
import type { DecodedSource, DecodeSource } from '../rpc/trusted-request.ts';

/** Decodes the raw body that an edge in another process has sent, exactly as an edge in this process decodes what its client sends. `isCountOrCompaction`: the input is only counted or compacted, so that some members may be missing. */
export const decodeSource: DecodeSource = ({ protocol, body }, isCountOrCompaction): DecodedSource => {
  const { value, raw } = parseJson(Buffer.from(body.buffer, body.byteOffset, body.byteLength));
  const received = { body: value, raw, headers: {} };
  switch (protocol) {
    case Protocol.CHAT:
      return { request: chatCodec.decodeRequest(received).request };
    case Protocol.COMPLETIONS:
      return { request: completionsCodec.decodeRequest(received).request };
    case Protocol.MESSAGES:
      if (isCountOrCompaction) return { request: decodeCountRequest(received) };
      return { request: messagesCodec.decodeRequest(received).request };
    case Protocol.RESPONSES: {
      const { request, ...responseOptions } = isCountOrCompaction
        ? decodeContinuingRequest(received)
        : decodeRequest(received);
      return { request, response: responseOptions };
    }
    default:
      throw new GatewayError('validation_error', 'source.protocol: no client interface uses this protocol.', {
        param: 'source',
      });
  }
};
