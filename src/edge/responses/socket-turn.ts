import { decodeRequest } from '../../codecs/responses/index.ts';
import { errorType } from '../../errors/error-type.ts';
import { GatewayError } from '../../errors/gateway-error.ts';
import { Delivery } from '../../gen/tollgate/v1/request_pb.ts';
import { Call } from '../call.ts';
import type { Edge } from '../edge.ts';
import { clientError, errorEnvelope } from '../error-answer.ts';
import { GenerationFacts } from '../generation-facts.ts';
import { parseJson } from '../json-body.ts';
import { recordRequest } from '../request-record.ts';
import { createCall, responsesPath } from './create-route.ts';
import { type ResponseStep, StepRenderer } from './step-renderer.ts';

/** What a turn needs of its connection. */
export interface TurnConnection {
  readonly edge: Edge;
  /** The credential that the connection was opened with, and its headers. */
  readonly opened: Call;
  readonly key: string;
  readonly strict: boolean;
  /** The name of the connection's unstored responses. */
  readonly session: string;
  /** Aborted when the connection has ended. */
  readonly signal: AbortSignal;
  /** Sends one message; a promise where the client has to catch up first. */
  send(message: string): Promise<void> | undefined;
}

/** Members that only the HTTP transport has; `stream` is ignored, because a known client sends it. Source: decisions §4, "WebSocket". */
const refusedMembers = ['stream_options', 'background'] as const;

/**
 * One turn of a WebSocket: a `response.create` and the events that answer it. What fails before the response has begun is an `error` event with its status; what
 * fails later ends the response's own events. Never rejects.
 */
export async function answerTurn(connection: TurnConnection, message: Buffer): Promise<void> {
  const { edge, opened, key } = connection;
  const call = new Call(edge.options.nextRequestId(), {});
  call.useKey(key);
  call.credential = opened.credential;
  const request = { call, method: 'WEBSOCKET', routeOptions: { url: responsesPath } };
  const facts = new GenerationFacts(call, false);
  const renderer = new StepRenderer(call.id);
  const streamEnded = edge.options.metrics.streamOpened(responsesPath);
  edge.opened();
  try {
    const steps = begin(connection, call, message);
    await sendSteps(connection, steps, { facts, renderer, call });
    recordRequest(edge, request, { ...facts.record(), status: 200, stream: true });
  } catch (thrown) {
    if (connection.signal.aborted) {
      recordRequest(edge, request, { ...facts.record(), status: 499, code: 'client_gone' });
      return;
    }
    const error = clientError(thrown);
    const failed = renderer.begun
      ? renderer.fail(error).map(event => (event.type === 'error' ? withStatus(event.data, error) : event.data))
      : [errorEvent(edge, error, call.id)];
    for (const each of failed) await connection.send(each);
    const status = renderer.begun ? 200 : error.facets.http;
    recordRequest(edge, request, { ...facts.record(), status, code: error.code, error, stream: true });
  } finally {
    streamEnded();
    edge.closed();
  }
}

/** Decodes a message and calls the core. A turn that can't even be read evicts what it refers to, too. */
function begin(connection: TurnConnection, call: Call, message: Buffer): AsyncIterator<ResponseStep> {
  const { edge, session, strict, signal } = connection;
  if (edge.stopping()) throw new GatewayError('overloaded', 'The gateway is stopping.');
  const event = parseJson(message).value;
  try {
    const body = bodyOf(event);
    const raw = Buffer.from(JSON.stringify(body));
    const decoded = decodeRequest({ body, raw, headers: {} });
    const create = createCall(decoded, { delivery: Delivery.STREAMED, strict, session });
    return edge.responses.createResponse(create, { headers: call.rpcHeaders(), signal })[Symbol.asyncIterator]();
  } catch (thrown) {
    const previous = (event as { previous_response_id?: unknown } | null)?.previous_response_id;
    if (typeof previous === 'string') {
      const evicted = edge.responses.endSession({ session, responseId: previous }, { headers: call.rpcHeaders() });
      // The turn has failed whatever comes of this; a core that can't be reached forgets the session by itself.
      evicted.catch(() => undefined);
    }
    throw thrown;
  }
}

/** A `response.create` as the body that it would have over HTTP. */
function bodyOf(event: unknown): object {
  if (typeof event !== 'object' || event === null || !('type' in event) || event.type !== 'response.create') {
    throw new GatewayError('invalid_request', 'Send a JSON object whose type is response.create.', { param: 'type' });
  }
  const { type: _, stream: __, ...body } = event as { type: unknown; stream?: unknown } & Record<string, unknown>;
  for (const member of refusedMembers) {
    if (body[member] === undefined || body[member] === null) continue;
    throw new GatewayError('unsupported_parameter', `${member} is not used over a WebSocket.`, { param: member });
  }
  return body;
}

/** Sends what comes, at the client's pace. */
async function sendSteps(
  connection: TurnConnection,
  steps: AsyncIterator<ResponseStep>,
  { facts, renderer, call }: { facts: GenerationFacts; renderer: StepRenderer; call: Call },
): Promise<void> {
  const { signal } = connection;
  for (let next = await steps.next(); next.done !== true; next = await steps.next()) {
    // Nobody reads any more: the call is read on to its end, which the aborted signal brings about.
    if (signal.aborted) continue;
    const { events } = next.value;
    if (events.length > 0) facts.observe(events, () => call.elapsedMs());
    for (const { data } of renderer.push(next.value)) await connection.send(data);
  }
  if (!signal.aborted) renderer.end();
}

function withStatus(data: string, error: GatewayError): string {
  const event = JSON.parse(data) as Record<string, unknown>;
  return JSON.stringify({ ...event, status: error.facets.http });
}

/** A failure as the WebSocket's own event: the status that HTTP would have, and the envelope's error. */
export function errorEvent(edge: Edge, error: GatewayError, requestId: string): string {
  const { error: envelope } = errorEnvelope(error, requestId, edge.options.texts);
  return JSON.stringify({
    type: 'error',
    status: error.facets.http,
    error: { ...envelope, type: errorType(error.facets.http) },
  });
}
