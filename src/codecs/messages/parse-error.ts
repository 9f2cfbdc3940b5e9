import type { UpstreamFailure } from '../../generation/upstream.ts';
import type { Json } from '../codec.ts';
import { objectIn, textIn } from '../json.ts';
import {
  errorFacts as sharedFacts,
  type ErrorFacts,
  errorIn,
  readErrorBody,
  makeReportedFailure,
  namedStatus,
} from '../upstream-error.ts';

/** Upstream errors. Source: docs/errors.md "Errors of providers". */

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
  const status = namedStatus(error ?? {});
  return makeReportedFailure(errorFacts(value, status), status);
}
