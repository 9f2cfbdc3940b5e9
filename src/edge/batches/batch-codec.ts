import { readMessagesItem, readOpenAiItem } from '../../codecs/batches/read-line.ts';
import { renderAnswer, renderError, renderUnrun } from '../../codecs/batches/render-line.ts';
import { chatCodec } from '../../codecs/chat/index.ts';
import type { ClientCodec, ReceivedRequest } from '../../codecs/codec.ts';
import { decodeEmbedRequest } from '../../codecs/embeddings/decode-request.ts';
import { renderEmbedAnswer } from '../../codecs/embeddings/render-answer.ts';
import { decodeGemini, googleStatus, renderGemini } from '../../codecs/gemini/index.ts';
import { messagesCodec } from '../../codecs/messages/index.ts';
import { decodeRequest, renderResource } from '../../codecs/responses/index.ts';
import { rememberBody } from '../../codecs/sent-body.ts';
import { GatewayError } from '../../errors/gateway-error.ts';
import { Delivery, Endpoint } from '../../gen/tollgate/v1/request_pb.ts';
import type { BatchCall, BatchCodec, BatchLine } from '../../generation/batches/batch-codec.ts';
import { endpointPath } from '../../generation/endpoints.ts';
import { isLargeJson, writeInTurns } from '../../lib/large-json.ts';
import { envelopes } from '../error-answer.ts';
import { parseBytes } from '../json-body.ts';
import type { JsonBounds } from '../json-bounds.ts';
import type { JsonParser } from '../json-parser.ts';
import type { ErrorTexts } from '../options.ts';
import { createCall } from '../responses/create-route.ts';
import { readFacts, toAnswerOutcome } from '../responses/facts.ts';

/**
 * Decodes batch items exactly as their interfaces decode requests, and renders their answers and errors the same way.
 */
export function createBatchCodec(settings: {
  readonly texts: () => ErrorTexts;
  readonly strict: () => boolean;
  /** Parses large lines. */
  readonly parser: JsonParser;
  /** The bounds of a line: those of a request's body. */
  readonly bounds: () => JsonBounds;
}): BatchCodec {
  return {
    readLine: async (line, endpoint, isNew = false) => {
      const { value } = await parseBytes(settings.parser, line, isNew ? settings.bounds() : undefined);
      return isMessages(endpoint) ? readMessagesItem(value) : readOpenAiItem(value, endpointPath(endpoint));
    },
    decode: (line, endpoint) => decodeBody(line, endpoint, settings.strict()),
    renderFailure: (item, error) => {
      const isGemini = item.endpoint === Endpoint.GEMINI;
      const shape = isGemini ? 'google' : isMessages(item.endpoint) ? 'messages' : 'openai';
      const status = isGemini ? googleStatus(error) : error.facets.http;
      const shown = { status, envelope: envelopes[shape](error, item.requestId, settings.texts()) };
      return renderError(item, shown, isMessages(item.endpoint));
    },
    renderUnrun: (item, reason) => renderUnrun(item, reason, isMessages(item.endpoint)),
  };
}

function isMessages(endpoint: Endpoint): boolean {
  return endpoint === Endpoint.MESSAGES;
}

async function decodeBody(line: BatchLine, endpoint: Endpoint, strict: boolean): Promise<BatchCall> {
  const { body } = line;
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
    case Endpoint.GEMINI:
      return decodeGeminiLine(line, strict);
    case Endpoint.MESSAGES:
      return decodeGeneration(messagesCodec, { body, endpoint, strict });
    case Endpoint.CHAT_COMPLETIONS:
      return decodeGeneration(chatCodec, { body, endpoint, strict });
    default:
      throw new GatewayError('internal', `no codec for batch items of ${endpointPath(endpoint)}`);
  }
}

async function decodeGeneration(
  codec: ClientCodec,
  { body, endpoint, strict }: { readonly body: unknown; readonly endpoint: Endpoint; readonly strict: boolean },
): Promise<BatchCall> {
  const decoded = codec.decodeRequest(await receive(body));
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

/** The model of an item is in its address. */
async function decodeGeminiLine({ body, model = '' }: BatchLine, strict: boolean): Promise<BatchCall> {
  const decoded = decodeGemini({ ...(await receive(body)), model, stream: false });
  decoded.request.strict = strict;
  return {
    kind: 'generation',
    request: decoded.request,
    render: (item, events) => renderAnswer(item, renderGemini(events, decoded), false),
  };
}

async function decodeResponse(body: unknown, strict: boolean): Promise<BatchCall> {
  const decoded = decodeRequest(await receive(body));
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

/** Returns a line's body as if it were a request's. A large one is written in turns of the event loop, and is not read again. */
async function receive(body: unknown): Promise<ReceivedRequest> {
  if (!isLargeJson(body)) return { body, raw: Buffer.from(JSON.stringify(body)), headers: {} };
  const raw = await writeInTurns(body, () => true);
  rememberBody(raw, body, false);
  return { body, raw, headers: {} };
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
