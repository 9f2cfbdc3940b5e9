import type { UpstreamFailure } from '../../generation/upstream.ts';
import type { Json } from '../codec.ts';
import { objectIn, textIn } from '../json.ts';
import { errorFacts, type ErrorFacts, readErrorBody, makeReportedFailure, statusIn } from '../upstream-error.ts';

/** Upstream errors. Source: docs/errors.md "Errors of providers". */

/** HTTP statuses by the code or type of an error in a stream. */
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

/** Parses an error body; returns an empty object for a web page or an empty body. Never throws. */
export function parseError(status: number, body: string): ErrorFacts {
  return readErrorBody(body, value => errorFacts(value, status));
}

/** Returns the failure that the upstream reports inside its answer: an `error` event, or a response that failed. */
export function toReportedFailure(value: Json): UpstreamFailure {
  const body = objectIn(value);
  const error = objectIn(body?.['error']) ?? body ?? {};
  const { code, type } = error;
  const named = statusIn([error['status_code'], error['status'], code]);
  const status = named ?? statusByCode[textIn(code)] ?? statusByCode[textIn(type)];
  return makeReportedFailure(errorFacts(value, status), status);
}
