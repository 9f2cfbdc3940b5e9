import { chatCodec } from '../codecs/chat/index.ts';
import { completionsCodec } from '../codecs/completions/index.ts';
import { decodeCountRequest, messagesCodec } from '../codecs/messages/index.ts';
import { decodeContinuingRequest, decodeRequest } from '../codecs/responses/index.ts';
import type { ReceivedRequest } from '../codecs/codec.ts';
import { parseBytes } from './json-body.ts';
import type { JsonParser } from './json-parser.ts';
import { GatewayError } from '../errors/gateway-error.ts';
import { Protocol } from '../gen/tollgate/v1/content_pb.ts';
import type { DecodedSource, DecodeSource } from '../rpc/trusted-request.ts';

/**
 * Returns what decodes the raw body that an edge in another process has sent, exactly as an edge in this process decodes what its client sends:
 * `parser` parses large ones.
 */
export function sourceDecoder(parser: JsonParser): DecodeSource {
  return async ({ protocol, body }, isCountOrCompaction) => {
    const { value, raw } = await parseBytes(parser, body);
    return decodeBody(protocol, { body: value, raw, headers: {} }, isCountOrCompaction);
  };
}

function decodeBody(protocol: Protocol, received: ReceivedRequest, isCountOrCompaction: boolean): DecodedSource {
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
}
