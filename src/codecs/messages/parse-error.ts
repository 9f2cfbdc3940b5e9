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

/** How upstreams report that the input is too long. The protocol has no code for it, but compatible servers do. */
const tooLong: TooLong = {
  code: /^context_length_exceeded$/,
  message: /prompt is too long|context[ _-]?(length|window|limit)|input (is|was) too long|too many (input )?tokens/i,
};

/** HTTP statuses by the type of an error in a stream. */
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

/** Parses an error body; returns an empty object for a web page or an empty body. Never throws. */
export function parseError(_status: number, body: string): ErrorFacts {
  return readErrorBody(body, errorFacts);
}

function errorFacts(value: Json): ErrorFacts {
  const detailCode = textIn(objectIn(errorIn(value)?.['details'])?.['error_code']);
  return { ...sharedFacts(value, tooLong), ...(/^\w{1,64}$/.test(detailCode) ? { detailCode } : {}) };
}

/** Returns the failure that the upstream reports inside its answer. */
export function toReportedFailure(value: Json): UpstreamFailure {
  const error = objectIn(objectIn(value)?.['error']);
  return makeReportedFailure(
    errorFacts(value),
    statusIn([error?.['status_code']]) ?? statusByType[textIn(error?.['type'])],
  );
}
