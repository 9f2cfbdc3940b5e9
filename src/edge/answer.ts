import { type IncomingMessage, type ServerResponse, STATUS_CODES } from 'node:http';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { exactText } from '../lib/exact-json.ts';
import type { AnswerHeaders } from './call.ts';
import type { Edge } from './edge.ts';
import { recordRequest } from './request-record.ts';

/**
 * Writes whole answers to the raw response. Every answer except streams is written here, so that an unread body is handled everywhere.
 */

/** A whole answer; `body` may be empty. */
export interface Answer {
  readonly status: number;
  readonly headers: AnswerHeaders;
  readonly body: string;
}

/** An unread body up to this size is read and dropped, so that the connection can be reused. */
const skippedBodyBytes = 65_536;
/** How long the connection of a client that still sends a refused body stays open, so that the client can read the answer. */
const lingerMs = 2000;

/** The content type of JSON. */
export const jsonType = 'application/json; charset=utf-8';

/** Returns an answer with JSON. Adds the content type to `headers`. */
export function jsonAnswer(status: number, headers: AnswerHeaders, value: unknown): Answer {
  const body = exactText(value);
  headers['content-type'] = jsonType;
  return { status, headers, body };
}

/** Returns the whole text of an answer, for a connection that has no response object and is closed afterwards. */
export function answerText({ status, headers, body }: Answer): string {
  const whole = { ...headers, 'content-length': Buffer.byteLength(body), connection: 'close' };
  const lines = Object.entries(whole).map(([name, value]) => `${name}: ${value}\r\n`);
  return `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ''}\r\n${lines.join('')}\r\n${body}`;
}

/** Answers a request that generates nothing with JSON and status 200, and records it. */
export function answerJson(edge: Edge, request: FastifyRequest, reply: FastifyReply, value: object): void {
  answerBody(edge, request, reply, exactText(value));
}

function answerBody(edge: Edge, request: FastifyRequest, reply: FastifyReply, body: string): void {
  reply.hijack();
  const { headers } = request.call;
  if (edge.stopping()) headers['connection'] = 'close';
  headers['content-type'] = jsonType;
  writeAnswer(request.raw, reply.raw, { status: 200, headers, body });
  recordRequest(edge, request, { status: 200, repeats: request.call.repeats });
}

/**
 * Writes an answer, and adds its length to its headers. A body that was not read is dropped: a small body is read to its end; of a larger
 * one, only what arrives within two seconds is read, and then the connection is closed. If it were closed at once, while the client still
 * sends, it would be reset, and the client would lose the answer; `closesAtOnce` does that nevertheless.
 */
export function writeAnswer(
  request: IncomingMessage,
  response: ServerResponse,
  answer: Answer,
  closesAtOnce = false,
): void {
  const { headers } = answer;
  if (answer.status !== 204) headers['content-length'] = Buffer.byteLength(answer.body);
  if (!hasLargeUnreadBody(request)) {
    response.writeHead(answer.status, headers);
    response.end(answer.body);
    return;
  }
  headers['connection'] = 'close';
  response.writeHead(answer.status, headers);
  if (closesAtOnce) {
    response.once('finish', () => request.socket.destroy());
    response.end(answer.body);
    return;
  }
  response.flushHeaders();
  response.write(answer.body);
  const end = (): void => {
    clearTimeout(timer);
    request.off('end', end).off('close', end);
    response.end();
  };
  const timer = setTimeout(end, lingerMs);
  // If the client disconnects while the rest is discarded, there is nobody to report the error to.
  request.on('error', () => undefined);
  request.on('end', end).on('close', end).resume();
}

function hasLargeUnreadBody(request: IncomingMessage): boolean {
  if (request.complete) return false;
  if (request.headers['transfer-encoding'] !== undefined) return true;
  return Number(request.headers['content-length'] ?? 0) > skippedBodyBytes;
}
