import type { UpstreamFailure } from '../../generation/upstream.ts';
import type { Json } from '../codec.ts';
import { objectIn } from '../json.ts';
import { errorFacts, type ErrorFacts, readErrorBody, makeReportedFailure, namedStatus } from '../upstream-error.ts';

/** Upstream errors. Source: docs/errors.md "Errors of providers". */

/** Parses an error body; returns an empty object for a web page or an empty body. Never throws. */
export function parseError(status: number, body: string): ErrorFacts {
  return readErrorBody(body, value => errorFacts(value, status));
}

/** Returns the failure that the upstream reports inside its answer: an `error` event, or a response that failed. */
export function toReportedFailure(value: Json): UpstreamFailure {
  const body = objectIn(value);
  const error = objectIn(body?.['error']) ?? body ?? {};
  const status = namedStatus(error);
  return makeReportedFailure(errorFacts(value, status), status);
}
