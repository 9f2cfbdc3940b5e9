import type { UpstreamFailure } from '../../generation/upstream.ts';
import type { Json, JsonObject } from '../codec.ts';
import { defined, objectIn, objectsIn, textIn } from '../json.ts';
import {
  errorFacts as sharedFacts,
  type ErrorFacts,
  errorIn,
  readErrorBody,
  reportedAs,
  statusIn,
  type TooLong,
} from '../upstream-error.ts';

/** What upstreams say of a failure (`google.rpc.Status`). Source: wire.md B5; ai.google.dev, troubleshooting. */

const tooLong: TooLong = {
  message: /input token count .{0,60}exceeds|exceeds the maximum number of tokens|(prompt|input|request) is too long/i,
};

/** What the body of an error says; a web page or an empty body says nothing. Never throws. */
export function parseError(_status: number, body: string): ErrorFacts {
  return readErrorBody(body, errorFacts);
}

/** `status` and `retryAfterMs` where they say more than the answer's head. */
function errorFacts(value: Json): ErrorFacts {
  const details = objectsIn(errorIn(value)?.['details']);
  // A wrong key is answered with 400, and would count as the client's fault.
  const isKeyWrong = details.some(({ reason }) => /^API_KEY_(INVALID|EXPIRED)$/.test(textIn(reason)));
  const waits = details.map(detail => millisecondsOf(textIn(detail['retryDelay'])));
  return {
    ...sharedFacts(value, tooLong),
    ...defined({ status: isKeyWrong ? 401 : undefined, retryAfterMs: waits.find(each => each !== undefined) }),
  };
}

/** A `google.protobuf.Duration` ("34s", "1.5s"). */
function millisecondsOf(duration: string): number | undefined {
  const seconds = /^(\d{1,6}(?:\.\d{1,9})?)s$/.exec(duration)?.[1];
  return seconds === undefined ? undefined : Math.ceil(Number(seconds) * 1_000);
}

/** A failure that the upstream reports inside its answer. */
export function reported(body: JsonObject): UpstreamFailure {
  const facts = errorFacts(body);
  return reportedAs(facts, facts.status ?? statusIn([objectIn(body['error'])?.['code']]));
}
