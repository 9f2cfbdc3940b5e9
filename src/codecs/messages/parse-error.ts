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
} from '../upstream-error.ts';

/** Upstream errors. Source: docs/errors.md "Errors of providers". */

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
export function parseError(status: number, body: string): ErrorFacts {
  return readErrorBody(body, value => errorFacts(value, status));
}

function errorFacts(value: Json, status: number | undefined): ErrorFacts {
  const detailCode = textIn(objectIn(errorIn(value)?.['details'])?.['error_code']);
  return { ...sharedFacts(value, status), ...(/^\w{1,64}$/.test(detailCode) ? { detailCode } : {}) };
}

/** Returns the failure that the upstream reports inside its answer. */
export function toReportedFailure(value: Json): UpstreamFailure {
  const error = objectIn(objectIn(value)?.['error']);
  const status = statusIn([error?.['status_code']]) ?? statusByType[textIn(error?.['type'])];
  return makeReportedFailure(errorFacts(value, status), status);
}
