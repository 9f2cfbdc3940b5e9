import { decodeRequest } from '../../codecs/responses/index.ts';
import { errorType } from '../../errors/error-type.ts';
import { GatewayError, toGatewayError } from '../../errors/gateway-error.ts';
import { Delivery } from '../../gen/tollgate/v1/request_pb.ts';
import { type CreateResponseRequest, ResponseService } from '../../gen/tollgate/v1/response_pb.ts';
import type { Sink, StreamControl } from '../../lib/push.ts';
import type { SocketMessage } from '../../lib/websocket-reader.ts';
import { Call } from '../call.ts';
import type { Edge } from '../edge.ts';
import { clientError, errorEnvelope } from '../error-answer.ts';
import { type AnswerMessage, GenerationFacts } from '../generation-facts.ts';
import { type JsonBody, parseBounded } from '../json-body.ts';
import { recordRequest } from '../request-record.ts';
import { createCall, responsesPath } from '../responses/create-route.ts';
import type { ResponsesSocket } from '../responses/socket.ts';
import { StepRenderer } from '../responses/step-renderer.ts';

/** Members that are refused, because they have a meaning only over HTTP. `stream` is ignored instead, because a known client sends it. Source: docs/interfaces/responses.md "WebSocket". */
const refusedMembers = ['stream_options', 'background'] as const;

/**
 * One turn of a WebSocket: a `response.create`, and the events of its answer, sent as fast as the client reads. A failure before the response
 * has begun is sent as an `error` event with its status; a later failure is sent as the last events of the response.
 */
export class SocketTurn implements Sink<AnswerMessage> {
  readonly #connection: ResponsesSocket;
  readonly #call: Call;
  readonly #facts: GenerationFacts;
  readonly #steps = new StepRenderer();
  readonly #streamEnded: () => void;
  readonly #ended: () => void;
  #control: StreamControl | undefined;
  #isPaused = false;
  /** The failure after which the rest of the answer is ignored, although the core continues. */
  #failure: unknown;

  /** `ended` is called once the turn has ended and the client has read all of it, or has disconnected. */
  constructor(connection: ResponsesSocket, ended: () => void) {
    const { edge, key, opened, headers } = connection;
    const { runtime, nextRequestId, metrics } = edge.options;
    this.#connection = connection;
    this.#call = new Call(runtime, nextRequestId()).follow(headers, edge.options);
    this.#call.useKey(key);
    this.#call.credential = opened.credential;
    this.#call.body = connection;
    this.#facts = new GenerationFacts(this.#call);
    this.#streamEnded = metrics.streamOpened(responsesPath);
    this.#ended = ended;
    edge.answerStarted();
  }

  /** Decodes the client's message and calls the core. */
  begin({ pieces, size }: SocketMessage): void {
    const { edge } = this.#connection;
    parseBounded(edge, { chunks: pieces, size }, body => {
      try {
        if (body instanceof Error) throw body;
        const request = decodeTurn(this.#connection, body);
        this.#control = edge.options.transport.push(ResponseService.method.createResponse, request, this.#call, this);
        if (this.#connection.isGone) this.#control.cancel();
      } catch (thrown) {
        // Before the error is sent, so that the client's next turn does not find the response.
        void evictPrevious(this.#connection, this.#call, body).then(() => this.#end(thrown));
      }
    });
  }

  /** Stops the turn, because the connection has ended. */
  cancel(): void {
    this.#control?.cancel();
  }

  message(message: AnswerMessage): void {
    const connection = this.#connection;
    if (connection.isGone || this.#failure !== undefined) return;
    try {
      this.#facts.observe(message);
      for (const { data } of this.#steps.push(message)) if (!connection.send(data)) this.#pause();
    } catch (thrown) {
      this.#failure = thrown;
      this.#control?.cancel(toGatewayError(thrown));
    }
  }

  end(error?: Error): void {
    let failure: unknown = this.#failure ?? error;
    try {
      if (failure === undefined && !this.#connection.isGone) this.#steps.end();
    } catch (thrown) {
      failure = thrown;
    }
    this.#end(failure);
  }

  #pause(): void {
    if (this.#isPaused) return;
    this.#isPaused = true;
    this.#control?.pause();
    this.#connection.whenSent(() => {
      this.#isPaused = false;
      this.#control?.resume();
    });
  }

  #end(failure: unknown): void {
    const { edge, isGone } = this.#connection;
    const request = { call: this.#call, method: 'WEBSOCKET', routeOptions: { url: responsesPath } };
    if (isGone) {
      recordRequest(edge, request, { ...this.#facts.outcome(499), code: 'client_gone' });
    } else if (failure === undefined) {
      recordRequest(edge, request, this.#facts.outcome(200));
    } else {
      const error = clientError(failure);
      for (const event of this.#renderFailure(error)) this.#connection.send(event);
      const outcome = this.#facts.outcome(this.#steps.hasBegun ? 200 : error.facets.http);
      recordRequest(edge, request, { ...outcome, code: error.code, error });
    }
    this.#connection.whenSent(() => {
      this.#streamEnded();
      edge.answerEnded();
      this.#ended();
    });
  }

  #renderFailure(error: GatewayError): string[] {
    const { id } = this.#call;
    if (!this.#steps.hasBegun) return [errorEvent(this.#connection.edge, error, id)];
    const events = this.#steps.fail(error, id);
    return events.map(({ type, data }) => (type === 'error' ? withStatus(data, error) : data));
  }
}

/** Decodes a message to the request to the core's service. */
function decodeTurn(connection: ResponsesSocket, { value: event, raw }: JsonBody): CreateResponseRequest {
  const { edge, session, strict, attribution } = connection;
  if (edge.stopping()) throw new GatewayError('overloaded', 'The gateway is stopping.');
  const { body, generate } = readTurn(event);
  const decoded = decodeRequest({ body, raw, headers: {} });
  const requested = createCall(decoded, { delivery: Delivery.STREAMED, strict, session, generate });
  if (attribution !== undefined) requested.request.attribution = attribution;
  return requested;
}

/** Evicts the previous response of a turn that can't be decoded, as the core does for other failed turns. Never rejects. */
async function evictPrevious({ edge, session }: ResponsesSocket, call: Call, body: JsonBody | Error): Promise<void> {
  if (body instanceof Error) return;
  const responseId = (body.value as { previous_response_id?: unknown } | null)?.previous_response_id;
  if (typeof responseId !== 'string') return;
  // The turn has failed anyway. If the core can't be reached, it drops the session after a while.
  await edge.responses.endSession({ session, responseId }, { headers: call }).catch(() => undefined);
}

/** Returns the body that a `response.create` would have over HTTP, and whether to generate, which only a WebSocket can set. */
function readTurn(event: unknown): { readonly body: object; readonly generate: boolean } {
  if (typeof event !== 'object' || event === null || !('type' in event) || event.type !== 'response.create') {
    throw new GatewayError('invalid_request', 'Send a JSON object whose type is response.create.', { param: 'type' });
  }
  const { type: _, stream: __, generate, ...body } = event as { type: unknown } & Record<string, unknown>;
  if (generate != null && typeof generate !== 'boolean') {
    const violations = [{ path: ['generate'], message: 'must be a boolean', type: 'invalid_type' }];
    throw new GatewayError('validation_error', '`generate` must be a boolean.', { param: 'generate', violations });
  }
  for (const member of refusedMembers) {
    if (body[member] === undefined || body[member] === null) continue;
    throw new GatewayError('unsupported_parameter', `${member} is not supported over a WebSocket.`, { param: member });
  }
  return { body, generate: generate !== false };
}

function withStatus(data: string, error: GatewayError): string {
  const event = JSON.parse(data) as Record<string, unknown>;
  return JSON.stringify({ ...event, status: error.facets.http });
}

/** Returns the event that reports a failure over a WebSocket: the status that HTTP would have, and the error of the envelope. */
export function errorEvent(edge: Edge, error: GatewayError, requestId: string): string {
  const { error: envelope } = errorEnvelope(error, requestId, edge.options.texts);
  return JSON.stringify({
    type: 'error',
    status: error.facets.http,
    error: { ...envelope, type: errorType(error.facets.http) },
  });
}
