import type { UpstreamFailure } from '../../generation/upstream.ts';
import type { Json, JsonObject } from '../codec.ts';
import { defined, objectIn, objectsIn, textIn } from '../json.ts';
import {
  errorFacts as sharedFacts,
  type ErrorFacts,
  errorIn,
  readErrorBody,
  makeReportedFailure,
  namedStatus,
} from '../upstream-error.ts';

/**
 * Upstream errors (`google.rpc.Status`). Source: docs/errors.md "Errors of providers"; ai.google.dev,
 * troubleshooting.
 */

/** Parses an error body; returns an empty object for a web page or an empty body. Never throws. */
export function parseError(status: number, body: string): ErrorFacts {
  return readErrorBody(body, value => errorFacts(value, status));
}

/** Reads an error; the result has `status` and `retryAfterMs` if the body is more specific than the response head. */
function errorFacts(value: Json, status: number | undefined): ErrorFacts {
  const details = objectsIn(errorIn(value)?.['details']);
  // Gemini reports a wrong key with status 400, which would otherwise count as the client's error.
  const isKeyWrong = details.some(({ reason }) => /^API_KEY_(INVALID|EXPIRED)$/.test(textIn(reason)));
  const waits = details.map(detail => parseDuration(textIn(detail['retryDelay'])));
  return {
    ...sharedFacts(value, status),
    ...defined({ status: isKeyWrong ? 401 : undefined, retryAfterMs: waits.find(each => each !== undefined) }),
  };
}

/** Parses a `google.protobuf.Duration` ("34s", "1.5s") to milliseconds; undefined if it is not one. */
function parseDuration(duration: string): number | undefined {
  const seconds = /^(\d{1,6}(?:\.\d{1,9})?)s$/.exec(duration)?.[1];
  return seconds === undefined ? undefined : Math.ceil(Number(seconds) * 1_000);
}

/** Returns the failure that the upstream reports inside its answer. */
export function toReportedFailure(body: JsonObject): UpstreamFailure {
  const named = namedStatus(objectIn(body['error']) ?? {});
  const facts = errorFacts(body, named);
  return makeReportedFailure(facts, facts.status ?? named);
}
