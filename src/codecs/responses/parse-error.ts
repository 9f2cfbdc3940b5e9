import { UpstreamFailure, type UpstreamFailureFacts } from '../../generation/upstream.ts';
import type { Json } from '../codec.ts';
import { countIn, objectIn, textIn } from '../json.ts';
import { factsOf, messageOf, readErrorBody } from '../upstream-error.ts';

/** What upstreams say of a failure. Source: wire.md B5. */
export type ErrorFacts = Pick<UpstreamFailureFacts, 'message' | 'param' | 'contextLengthExceeded'>;

/** Their words for an input that is too long. */
const tooLong =
  /context[ _-]?(length|window|size)|maximum (context|prompt|input)|(prompt|input|request) (is|was) too (long|large)|too many (input )?tokens|exceeds? .{0,40}tokens/i;

/** The status of an error that a stream tells by its code or type. */
const statusByCode: Readonly<Record<string, number>> = {
  server_error: 500,
  rate_limit_exceeded: 429,
  too_many_requests: 429,
  rate_limit_error: 429,
  invalid_prompt: 400,
  invalid_request_error: 400,
  invalid_request: 400,
  context_length_exceeded: 400,
  not_found: 404,
  overloaded: 503,
};

/** What the body of an error says; a web page or an empty body says nothing. Never throws. */
export function parseError(_status: number, body: string): ErrorFacts {
  return readErrorBody(body, errorFacts, text => named(text, '', ''));
}

/** What an error object says: the nested form, the flat one of streams, and those of compatible servers. */
function errorFacts(value: Json): ErrorFacts {
  if (typeof value === 'string') return named(value, '', '');
  const body = objectIn(value);
  if (body === undefined) return {};
  const { error } = body;
  if (typeof error === 'string') return named(error, '', textIn(body['code']));
  const inner = objectIn(error) ?? body;
  return named(messageOf(inner), textIn(inner['param']), textIn(inner['code']) || textIn(inner['type']));
}

function named(message: string, param: string, code: string): ErrorFacts {
  return factsOf(message, param, /context_(length|window)/.test(code) || tooLong.test(message));
}

/** A failure that the upstream reports inside its answer: an `error` event, or a resource that failed. */
export function reported(error: Json): UpstreamFailure {
  const body = objectIn(error);
  const inner = objectIn(body?.['error']) ?? body;
  const named = [inner?.['status_code'], inner?.['status'], inner?.['code']].map(countIn);
  const status =
    named.find(each => each !== undefined && each >= 400 && each <= 599) ??
    statusByCode[textIn(inner?.['code'])] ??
    statusByCode[textIn(inner?.['type'])];
  return new UpstreamFailure('reported', { ...errorFacts(error), ...(status === undefined ? {} : { status }) });
}
