import { UpstreamFailure, type UpstreamFailureFacts } from '../../generation/upstream.ts';
import type { Json, JsonObject } from '../codec.ts';
import { countIn, listIn, objectIn, objectsIn, textIn } from '../json.ts';
import { factsOf, readErrorBody } from '../upstream-error.ts';

/** What upstreams say of a failure (`google.rpc.Status`). Source: wire.md B5; ai.google.dev, troubleshooting. */

/** What an error says; `status` and `retryAfterMs` where they say more than the answer's head. */
export type ErrorFacts = Pick<UpstreamFailureFacts, 'message' | 'contextLengthExceeded' | 'status' | 'retryAfterMs'>;

/** Their words for an input that is too long; there is no code of its own for it. */
const tooLong =
  /input token count .{0,60}exceeds|exceeds the maximum number of tokens|(prompt|input|request) is too long/i;

/** What the body of an error says; a web page or an empty body says nothing. Never throws. */
export function parseError(_status: number, body: string): ErrorFacts {
  return readErrorBody(body, errorFacts, text => named(text, {}));
}

/** Without SSE an error stands in a list. */
function errorFacts(value: Json): ErrorFacts {
  const body = objectIn(value) ?? objectIn(listIn(value)[0]);
  if (body === undefined) return {};
  const error = objectIn(body['error']) ?? body;
  const details = objectsIn(error['details']);
  const reasons = details.map(detail => textIn(detail['reason']));
  const wait = details.map(detail => millisecondsOf(textIn(detail['retryDelay']))).find(each => each !== undefined);
  return named(textIn(error['message']), {
    // A wrong key is answered with 400, and would count as the client's fault.
    ...(reasons.some(reason => /^API_KEY_(INVALID|EXPIRED)$/.test(reason)) ? { status: 401 } : {}),
    ...(wait === undefined ? {} : { retryAfterMs: wait }),
  });
}

/** A `google.protobuf.Duration` ("34s", "1.5s"). */
function millisecondsOf(duration: string): number | undefined {
  const seconds = /^(\d{1,6}(?:\.\d{1,9})?)s$/.exec(duration)?.[1];
  return seconds === undefined ? undefined : Math.ceil(Number(seconds) * 1_000);
}

function named(message: string, facts: ErrorFacts): ErrorFacts {
  return { ...factsOf(message, '', tooLong.test(message)), ...facts };
}

/** A failure that the upstream reports inside its answer. */
export function reported(body: JsonObject): UpstreamFailure {
  const status = countIn(objectIn(body['error'])?.['code']);
  const named = status !== undefined && status >= 400 && status <= 599 ? { status } : {};
  return new UpstreamFailure('reported', { ...named, ...errorFacts(body) });
}
