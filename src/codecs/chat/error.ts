import { errorType } from '../../errors/error-type.ts';
import type { GatewayError } from '../../errors/gateway-error.ts';
import type { UpstreamFailureFacts } from '../../generation/upstream.ts';
import { sseData } from '../../lib/sse.ts';
import type { Json } from '../codec.ts';
import { countIn, listIn, objectIn, textIn } from '../json.ts';
import { factsOf, messageOf, readErrorBody } from '../upstream-error.ts';

/** Errors of Chat Completions: the frame that clients get, and what upstreams say. Source: decisions §3, wire.md B5. */

/** The frame that ends a stream which failed: no finish and no `[DONE]` follow, so that no client takes it for a success. */
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

/** What an upstream says of a failure. */
export type ErrorFacts = Pick<UpstreamFailureFacts, 'message' | 'param' | 'contextLengthExceeded'>;

/** Upstreams have no common code for an input that is too long; these are their words for it. */
const tooLong =
  /context[ _-]?(length|window|size)|maximum (context|prompt|input)|max_model_len|(prompt|input|request) (is|was) too (long|large)|too many (input )?tokens|exceeds? .{0,40}tokens/i;

/** What the body of an error says; a web page or an empty body says nothing. Never throws. */
export function parseError(_status: number, body: string): ErrorFacts {
  return readErrorBody(body, errorFacts, text => named(text, '', ''));
}

/** What an error object says, in any of the shapes that compatible servers use. */
export function errorFacts(value: Json): ErrorFacts {
  if (typeof value === 'string') return named(value, '', '');
  const body = objectIn(value) ?? objectIn(listIn(value)[0]);
  if (body === undefined) return {};
  const error = body['error'] ?? body['errors'];
  if (typeof error === 'string') return named(error, '', textIn(body['code']));
  const inner = objectIn(error) ?? objectIn(listIn(error)[0]) ?? body;
  return named(messageOf(inner), textIn(inner['param']), textIn(inner['code']) || textIn(inner['type']));
}

function named(message: string, param: string, code: string): ErrorFacts {
  return factsOf(message, param, /context_(length|window)_exceeded|context_length/.test(code) || tooLong.test(message));
}

/** The HTTP status that an error in a stream names; undefined where it names none. */
export function statusOf(value: Json): number | undefined {
  const body = objectIn(value);
  const error = objectIn(body?.['error']) ?? body;
  const named = [error?.['status'], error?.['status_code'], error?.['code']].map(countIn);
  return named.find(status => status !== undefined && status >= 400 && status <= 599);
}
