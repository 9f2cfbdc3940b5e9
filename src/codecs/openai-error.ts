import { errorType } from '../errors/error-type.ts';
import type { GatewayError } from '../errors/gateway-error.ts';
import type { UpstreamFailure } from '../generation/upstream.ts';
import { sseData } from '../lib/sse.ts';
import type { Json } from './codec.ts';
import { objectIn } from './json.ts';
import {
  errorFacts,
  type ErrorFacts,
  readErrorBody,
  makeReportedFailure,
  statusIn,
  type TooLong,
} from './upstream-error.ts';

/** Errors of Chat Completions and of the older Completions: the frame that clients get, and what upstreams say. Source: docs/errors.md "The envelope". */

/** Returns the frame that ends a failed stream: no finish and no `[DONE]` follow, so that no client takes it for a success. */
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

/** Upstreams have no common code for an input that is too long; these are their wordings. */
const tooLong: TooLong = {
  code: /context_(length|window)_exceeded|context_length/,
  message:
    /context[ _-]?(length|window|size)|maximum (context|prompt|input)|max_model_len|(prompt|input|request) (is|was) too (long|large)|too many (input )?tokens|exceeds? .{0,40}tokens/i,
};

/** Parses an error body; a web page or an empty body yields nothing. Never throws. */
export function parseError(_status: number, body: string): ErrorFacts {
  return readErrorBody(body, value => errorFacts(value, tooLong));
}

/** A failure that the upstream reports inside its answer. */
export function toReportedFailure(value: Json): UpstreamFailure {
  const body = objectIn(value);
  const error = objectIn(body?.['error']) ?? body;
  const status = statusIn([error?.['status'], error?.['status_code'], error?.['code']]);
  return makeReportedFailure(errorFacts(value, tooLong), status);
}
