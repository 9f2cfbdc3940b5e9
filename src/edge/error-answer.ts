import type { FastifyReply, FastifyRequest } from 'fastify';
import { googleError, googleStatus } from '../codecs/gemini/index.ts';
import { errorType, messagesErrorType } from '../errors/error-type.ts';
import { type DenialFacts, type DeniedLimit, GatewayError, toGatewayError } from '../errors/gateway-error.ts';
import { retryAfterSeconds } from '../errors/retry-after.ts';
import { isoTime } from '../lib/clock.ts';
import { jsonDollars } from '../lib/dollars.ts';
import { fromConnectError } from '../rpc/errors.ts';
import { jsonAnswer, writeAnswer } from './answer.ts';
import type { AnswerHeaders, Call } from './call.ts';
import { ClientGone } from './client-watch.ts';
import type { Edge } from './edge.ts';
import type { GenerationFacts } from './generation-facts.ts';
import { addLimitHeaders, type LimitWindow } from './limit-headers.ts';
import type { ErrorTexts } from './options.ts';
import { recordRequest } from './request-record.ts';

/**
 * Answers errors to REST clients: the envelope and its headers. All errors are sent from here. Source:
 * docs/errors.md "The envelope".
 */

/**
 * Returns the error envelope: all ten fields, null if empty, and the limit that refused the request, if one did. `id`: the request's id.
 */
export function errorEnvelope(error: GatewayError, id: string, texts: ErrorTexts) {
  const tip = texts.tips[error.code] ?? error.tip;
  const linked = (address: string | null): string | null => address?.replaceAll('{code}', error.code) ?? null;
  return {
    error: {
      message: error.message,
      type: errorType(error.facets.http),
      param: error.facts.param ?? null,
      code: error.code,
      status_code: error.facets.http,
      id,
      tip: tip === '' ? null : tip,
      docs: linked(texts.docs),
      support: linked(texts.support),
      community: texts.community,
      ...(error.facts.denial?.row === undefined
        ? {}
        : { limit: limitJson(error.facts.denial, error.facts.denial.row) }),
    },
  };
}

/** Returns the limit that refused a request, with amounts of `usd` in dollars. */
function limitJson({ unit, used, max, resetAtMs }: DenialFacts, { id, scope, scopeId, window }: DeniedLimit) {
  const isMoney = unit === 'nano_usd';
  const amount = (value: number | bigint): unknown => (isMoney ? jsonDollars(BigInt(value)) : Number(value));
  return {
    limit_id: id,
    scope: { type: scope, id: scopeId },
    unit: isMoney ? 'usd' : unit,
    window,
    used: amount(used),
    max: amount(max),
    resets_at: resetAtMs === undefined ? null : isoTime(resetAtMs),
  };
}

/** Returns the envelope for the paths of the Anthropic interface, with the fields that its official client reads. */
export function messagesErrorEnvelope(error: GatewayError, id: string, texts: ErrorTexts) {
  const envelope = errorEnvelope(error, id, texts);
  const type = messagesErrorType(error.facets.http);
  return {
    type: 'error',
    error: { ...envelope.error, type, details: readDetails(error) },
    request_id: id,
  };
}

/** Returns the error's details. For a refused `thread` they are what makes Anthropic's client continue without one (`@anthropic-ai/sdk` 1.11, ThreadState). */
function readDetails({ code, facts }: GatewayError): object {
  if (code !== 'unsupported_parameter' || facts.param !== 'thread') return { error_code: facts.detailCode ?? code };
  return { error_code: 'thread_unsupported_request', unsupported: ['thread'] };
}

/**
 * Returns the validation envelope, which the account's paths use for errors that name fields: each wrong field of a body, or the wrong
 * query parameter. Source: docs/interfaces/account.md "Errors".
 */
function accountErrorEnvelope(error: GatewayError, id: string, texts: ErrorTexts): object {
  const { violations = [] } = error.facts;
  if (violations.length === 0) return errorEnvelope(error, id, texts);
  const place = error.code === 'validation_error' ? 'body' : 'query';
  return {
    detail: violations.map(({ path, message, type, inputJson }) => ({
      loc: [place, ...path],
      msg: message,
      type,
      // null if nothing was sent, or if the value is too long to be repeated.
      input: inputJson === undefined ? null : (JSON.parse(inputJson) as unknown),
      ctx: {},
    })),
  };
}

/** Returns the envelope for the paths of Gemini's interface. */
function googleErrorEnvelope(error: GatewayError, id: string, texts: ErrorTexts): object {
  const { tip, docs } = errorEnvelope(error, id, texts).error;
  return googleError(error, { id, tip, docs });
}

/** The envelopes by the shape of errors. */
export const envelopes = {
  openai: errorEnvelope,
  messages: messagesErrorEnvelope,
  google: googleErrorEnvelope,
  account: accountErrorEnvelope,
} as const;

/**
 * Returns `x-should-retry`; undefined if the client decides. An error with status 429 is worth an automatic retry only if the limit is soon free
 * again: a limit per minute, one of concurrent requests, or an error that says so itself.
 */
function shouldRetry(error: GatewayError): boolean | undefined {
  if (error.facets.http !== 429) return error.retry;
  const { denial } = error.facts;
  return denial?.row?.window === 'minute' || denial?.unit === 'concurrent' || error.facts.retry === true;
}

/** Adds the headers that say whether and when to retry, and the state of the key's request limits. */
export function addErrorHeaders(
  headers: AnswerHeaders,
  error: GatewayError,
  windows: readonly LimitWindow[],
  nowMs: number,
): AnswerHeaders {
  addLimitHeaders(headers, windows, nowMs);
  const seconds = retryAfterSeconds(error);
  if (seconds !== undefined) headers['retry-after'] = seconds;
  const retry = shouldRetry(error);
  if (retry !== undefined) headers['x-should-retry'] = String(retry);
  if (error.facets.http === 401) headers['www-authenticate'] = 'Bearer realm="tollgate"';
  return headers;
}

/** Converts anything that was thrown to the error for the client. */
export function clientError(thrown: unknown): GatewayError {
  if (thrown instanceof Error && 'code' in thrown && 'statusCode' in thrown && String(thrown.code).startsWith('FST_')) {
    return fromFramework(thrown, Number(thrown.statusCode));
  }
  return fromConnectError(thrown);
}

function fromFramework(error: Error & { code: unknown }, status: number): GatewayError {
  const { code } = error;
  if (code === 'FST_ERR_BAD_URL' || code === 'FST_ERR_MAX_PARAM_LENGTH') {
    return new GatewayError('not_found', 'No such path.');
  }
  if (code === 'FST_ERR_CTP_INVALID_MEDIA_TYPE') {
    return new GatewayError('invalid_request', 'The Content-Type header is malformed: send application/json.');
  }
  if (status >= 400 && status < 500) return new GatewayError('invalid_request', error.message, { cause: error });
  return toGatewayError(error);
}

/** Returns the state of the key's request limits: that in the error, else that from the core; empty if the key has none. */
async function findWindows(edge: Edge, call: Call, error: GatewayError): Promise<readonly LimitWindow[]> {
  const { limits = [] } = error.facts;
  if (limits.length > 0 || !call.sendsLimitHeaders || call.credential === undefined) return limits;
  return readWindows(edge, call);
}

/**
 * Asks the core for the state of the key's request limits, without counting a request. Returns an empty list if the core fails.
 */
export async function readWindows(edge: Edge, call: Call): Promise<readonly LimitWindow[]> {
  try {
    const { limits } = await edge.authenticate(call, { limits: true });
    return limits;
  } catch (thrown) {
    // The client gets another error; this failure only means that headers are missing.
    edge.options.logger.debug({ request_id: call.id, error: thrown }, 'windows unknown');
    return [];
  }
}

/** Why a request failed, and what is known about its unfinished answer. */
export interface RequestFailure {
  readonly thrown: unknown;
  readonly facts?: GenerationFacts;
}

/** Counts a request that was refused for its key. Returns whether too many such requests of its address are still being answered. */
function isCrowded(edge: Edge, { raw }: FastifyRequest, reply: FastifyReply): boolean {
  const address = edge.options.addresses.find(raw);
  if (edge.unauthenticated.take(address, 1) !== 'taken') return true;
  reply.raw.once('close', () => edge.unauthenticated.give(address, 1));
  return false;
}

/** Answers with an error, whatever was thrown, and records the request. Never rejects. */
export async function answerError(
  edge: Edge,
  request: FastifyRequest,
  reply: FastifyReply,
  failure: RequestFailure,
): Promise<void> {
  reply.hijack();
  const { call, raw } = request;
  const { thrown, facts } = failure;
  if (thrown instanceof ClientGone || raw.socket.destroyed) {
    recordRequest(edge, request, { ...facts?.outcome(499), status: 499, code: 'client_gone' });
    return;
  }
  const error = clientError(thrown);
  const http = call.errorShape === 'google' ? googleStatus(error) : error.facets.http;
  const windows = await findWindows(edge, call, error);
  const headers = addErrorHeaders(call.headers, error, windows, edge.options.runtime.now());
  if (edge.stopping()) headers['connection'] = 'close';
  const envelope = envelopes[call.errorShape];
  const answer = jsonAnswer(http, headers, envelope(error, call.id, edge.options.texts));
  call.bodies?.answered(answer.body);
  writeAnswer(raw, reply.raw, answer, http === 401 && isCrowded(edge, request, reply));
  recordRequest(edge, request, { ...facts?.outcome(http), status: http, code: error.code, error });
}
