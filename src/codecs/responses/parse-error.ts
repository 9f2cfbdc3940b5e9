import type { UpstreamFailure } from '../../generation/upstream.ts';
import type { Json } from '../codec.ts';
import { objectIn, textIn } from '../json.ts';
import {
  errorFacts,
  type ErrorFacts,
  readErrorBody,
  makeReportedFailure,
  statusIn,
  type TooLong,
} from '../upstream-error.ts';

/** Upstream errors. Source: docs/errors.md "Errors of providers". */

const tooLong: TooLong = {
  code: /context_(length|window)/,
  message:
    /context[ _-]?(length|window|size)|maximum (context|prompt|input)|(prompt|input|request) (is|was) too (long|large)|too many (input )?tokens|exceeds? .{0,40}tokens/i,
};

/** Returns the status of an error that a stream reports by its code or type. */
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

/** Parses an error body; a web page or an empty body yields nothing. Never throws. */
export function parseError(_status: number, body: string): ErrorFacts {
  return readErrorBody(body, value => errorFacts(value, tooLong));
}

/** A failure that the upstream reports inside its answer: an `error` event, or a resource that failed. */
export function toReportedFailure(value: Json): UpstreamFailure {
  const body = objectIn(value);
  const error = objectIn(body?.['error']) ?? body ?? {};
  const { code, type } = error;
  const named = statusIn([error['status_code'], error['status'], code]);
  return makeReportedFailure(
    errorFacts(value, tooLong),
    named ?? statusByCode[textIn(code)] ?? statusByCode[textIn(type)],
  );
}
