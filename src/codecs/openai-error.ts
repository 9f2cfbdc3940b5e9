import { errorType } from '../errors/error-type.ts';
import type { GatewayError } from '../errors/gateway-error.ts';
import type { UpstreamFailure } from '../generation/upstream.ts';
import { sseData } from '../lib/sse.ts';
import type { Json } from './codec.ts';
import { objectIn } from './json.ts';
import { errorFacts, type ErrorFacts, readErrorBody, makeReportedFailure, namedStatus } from './upstream-error.ts';

/** Errors of Chat Completions and of the older Completions: renders the frame for clients, and parses the errors of upstreams. Source: docs/errors.md "The envelope". */

/** Returns the frame that ends a failed stream. No finish reason and no `[DONE]` follow it, so that no client takes the stream for a success. */
export function errorFrame(error: GatewayError, requestId: string): string {
  return sseData(
    JSON.stringify({
      error: {
        message: error.message,
        type: errorType(error.facets.http),
        param: error.facts.param ?? null,
        code: error.code,
        id: error.facts.requestId ?? requestId,
      },
    }),
  );
}

/** Parses an error body; returns an empty object for a web page or an empty body. Never throws. */
export function parseError(status: number, body: string): ErrorFacts {
  return readErrorBody(body, value => errorFacts(value, status));
}

/** Returns the failure that the upstream reports inside its answer. */
export function toReportedFailure(value: Json): UpstreamFailure {
  const body = objectIn(value);
  const error = objectIn(body?.['error']) ?? body;
  const status = namedStatus(error ?? {});
  return makeReportedFailure(errorFacts(value, status), status);
}
