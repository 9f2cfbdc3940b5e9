import { readMessagesItem, readOpenAiItem } from '../../codecs/batches/read-line.ts';
import { renderAnswer, renderError, renderUnrun } from '../../codecs/batches/render-line.ts';
import { chatCodec } from '../../codecs/chat/index.ts';
import type { ClientCodec } from '../../codecs/codec.ts';
import { decodeEmbedRequest } from '../../codecs/embeddings/decode-request.ts';
import { renderEmbedAnswer } from '../../codecs/embeddings/render-answer.ts';
import { messagesCodec } from '../../codecs/messages/index.ts';
import { decodeRequest, renderResource } from '../../codecs/responses/index.ts';
import { GatewayError } from '../../errors/gateway-error.ts';
import { Delivery, Endpoint } from '../../gen/tollgate/v1/request_pb.ts';
import type { BatchCall, BatchCodec, BatchLine } from '../../generation/batches/batch-codec.ts';
import { endpointPath } from '../../generation/endpoints.ts';
import { errorEnvelope, messagesErrorEnvelope } from '../error-answer.ts';
import { parseJson } from '../json-body.ts';
import type { ErrorTexts } from '../options.ts';
import { createCall } from '../responses/create-route.ts';
import { readFacts, toAnswerOutcome } from '../responses/facts.ts';

/**
 * Decodes batch items exactly as their interfaces decode requests, and renders their answers and errors the same way.
 */
export function createBatchCodec(settings: {
  readonly texts: () => ErrorTexts;
  readonly strict: () => boolean;
}): BatchCodec {
  return {
    readLine: (line, endpoint) => {
      const { value } = parseJson(line);
      return isMessages(endpoint) ? readMessagesItem(value) : readOpenAiItem(value, endpointPath(endpoint));
    },
    decode: (line, endpoint) => decodeBody(line, endpoint, settings.strict()),
    renderFailure: (item, error) => {
      const envelope = isMessages(item.endpoint) ? messagesErrorEnvelope : errorEnvelope;
      const shown = { status: error.facets.http, envelope: envelope(error, item.requestId, settings.texts()) };
      return renderError(item, shown, isMessages(item.endpoint));
    },
    renderUnrun: (item, reason) => renderUnrun(item, reason, isMessages(item.endpoint)),
  };
}

function isMessages(endpoint: Endpoint): boolean {
  return endpoint === Endpoint.MESSAGES;
}

function decodeBody({ body }: BatchLine, endpoint: Endpoint, strict: boolean): BatchCall {
  refuseStream(body);
  switch (endpoint) {
    case Endpoint.RESPONSES:
      return decodeResponse(body, strict);
    case Endpoint.EMBEDDINGS:
      return {
        kind: 'embeddings',
        request: { ...decodeEmbedRequest(body), strict },
        render: (item, answer) => renderAnswer(item, renderEmbedAnswer(answer), false),
      };
    case Endpoint.MESSAGES:
      return decodeGeneration(messagesCodec, { body, endpoint, strict });
    default:
      return decodeGeneration(chatCodec, { body, endpoint, strict });
  }
}

function decodeGeneration(
  codec: ClientCodec,
  { body, endpoint, strict }: { readonly body: unknown; readonly endpoint: Endpoint; readonly strict: boolean },
): BatchCall {
  const decoded = codec.decodeRequest(receive(body));
  const { request } = decoded;
  request.endpoint = endpoint;
  request.delivery = Delivery.WHOLE;
  request.strict = strict;
  return {
    kind: 'generation',
    request,
    render: (item, events) => renderAnswer(item, codec.renderWhole(events, decoded), isMessages(endpoint)),
  };
}

function decodeResponse(body: unknown, strict: boolean): BatchCall {
  const decoded = decodeRequest(receive(body));
  if (decoded.background) {
    throw new GatewayError(
      'unsupported_parameter',
      'background: leave it out, because items of a batch always run in the background.',
      {
        param: 'background',
        tip: 'Leave `background` out.',
      },
    );
  }
  return {
    kind: 'response',
    request: createCall(decoded, { delivery: Delivery.WHOLE, strict }),
    render: (item, head, events) =>
      renderAnswer(item, renderResource(readFacts(head), toAnswerOutcome(head, events)), false),
  };
}

function receive(body: unknown) {
  return { body, raw: Buffer.from(JSON.stringify(body)), headers: {} };
}

/** Throws if the body requests a stream: results of items are whole answers. */
function refuseStream(body: unknown): void {
  if (typeof body !== 'object' || body === null || !('stream' in body) || body.stream !== true) return;
  throw new GatewayError(
    'unsupported_parameter',
    'stream: leave it out, because items of a batch are answered as a whole.',
    {
      param: 'stream',
      tip: 'Leave `stream` out.',
    },
  );
}
