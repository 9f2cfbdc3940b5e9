import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { GatewayError } from '../errors/gateway-error.ts';
import { answerText, jsonAnswer } from './answer.ts';
import type { Edge } from './edge.ts';
import { errorEnvelope } from './error-answer.ts';

/**
 * Answers errors below HTTP, for which there is no request: bytes that are not HTTP, headers that are too large, and requests that take too
 * long to arrive.
 */

const messages: Readonly<Record<string, string>> = {
  HPE_HEADER_OVERFLOW: 'The request’s headers are too large.',
  ERR_HTTP_REQUEST_TIMEOUT: 'The request took too long to arrive.',
};

/** A socket of a server; Node.js stores in it the answer that is being written. */
interface Answering extends Socket {
  readonly _httpMessage?: (ServerResponse & { readonly req: IncomingMessage }) | null;
}

/**
 * Answers 400 with the envelope, and closes the connection. Writes nothing if the client could take it for the answer to another request:
 * while an answer is being written, or before one that is still to come on this connection.
 */
export function answerConnectionError(edge: Edge, error: Error & { code?: string }, socket: Answering): void {
  const pending = socket._httpMessage;
  const isBroken = pending != null && !pending.headersSent && !pending.req.complete;
  if (!socket.writable || error.code === 'ECONNRESET' || (pending != null && !isBroken)) {
    socket.destroy();
    return;
  }
  const { nextRequestId, texts, logger } = edge.options;
  const id = nextRequestId();
  const message = messages[error.code ?? ''] ?? 'The request is not valid HTTP.';
  const refusal = new GatewayError('invalid_request', message, { cause: error });
  const { http } = refusal.facets;
  const headers = { 'x-request-id': id, 'x-should-retry': 'false', 'x-content-type-options': 'nosniff' };
  const answer = jsonAnswer(http, headers, errorEnvelope(refusal, id, texts));
  socket.end(answerText(answer), () => socket.destroy());
  logger.info({ request_id: id, status: http, code: refusal.code, reason: error.code }, 'request');
}
