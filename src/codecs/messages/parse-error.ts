import type { UpstreamFailure } from '../../generation/upstream.ts';
import type { Json } from '../codec.ts';
import { objectIn, textIn } from '../json.ts';
import {
  errorFacts as sharedFacts,
  type ErrorFacts,
  errorIn,
  readErrorBody,
  makeReportedFailure,
  statusIn,
  type TooLong,
} from '../upstream-error.ts';

/** Upstream errors. Source: docs/errors.md "Errors of providers". */

/** The protocol has no code for an input that is too long; compatible servers do. */
const tooLong: TooLong = {
  code: /^context_length_exceeded$/,
  message: /prompt is too long|context[ _-]?(length|window|limit)|input (is|was) too long|too many (input )?tokens/i,
};

/** Returns the status of an error that a stream reports by its type. */
const statusByType: Readonly<Record<string, number>> = {
  invalid_request_error: 400,
  authentication_error: 401,
  billing_error: 402,
  permission_error: 403,
  not_found_error: 404,
  request_too_large: 413,
  rate_limit_error: 429,
  api_error: 500,
  timeout_error: 504,
  overloaded_error: 529,
};

/** Parses an error body; a web page or an empty body yields nothing. Never throws. */
export function parseError(_status: number, body: string): ErrorFacts {
  return readErrorBody(body, errorFacts);
}

function errorFacts(value: Json): ErrorFacts {
  const detailCode = textIn(objectIn(errorIn(value)?.['details'])?.['error_code']);
  return { ...sharedFacts(value, tooLong), ...(/^\w{1,64}$/.test(detailCode) ? { detailCode } : {}) };
}

/** A failure that the upstream reports inside its answer. */
export function toReportedFailure(value: Json): UpstreamFailure {
  const error = objectIn(objectIn(value)?.['error']);
  return makeReportedFailure(
    errorFacts(value),
    statusIn([error?.['status_code']]) ?? statusByType[textIn(error?.['type'])],
  );
}
