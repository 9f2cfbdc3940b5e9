import { UpstreamFailure, type UpstreamFailureFacts } from '../../generation/upstream.ts';
import type { Json } from '../codec.ts';
import { countIn, objectIn, textIn } from '../json.ts';
import { factsOf, readErrorBody } from '../upstream-error.ts';

/** What upstreams say of a failure. Source: wire.md B5. */
export type ErrorFacts = Pick<UpstreamFailureFacts, 'message' | 'param' | 'detailCode' | 'contextLengthExceeded'>;

/** Their words for an input that is too long; there is no code of its own for it. */
const tooLong =
  /prompt is too long|context[ _-]?(length|window|limit)|input (is|was) too long|too many (input )?tokens/i;

/** The status of an error that a stream tells by its type. */
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

/** What the body of an error says; a web page or an empty body says nothing. Never throws. */
export function parseError(_status: number, body: string): ErrorFacts {
  return readErrorBody(body, errorFacts, text => named(text, '', ''));
}

/** What an error object says; other shapes than the protocol's own come from what stands between. */
function errorFacts(value: Json): ErrorFacts {
  if (typeof value === 'string') return named(value, '', '');
  const body = objectIn(value);
  if (body === undefined) return {};
  const error = body['error'];
  if (typeof error === 'string') return named(error, '', '');
  const inner = objectIn(error) ?? body;
  const message = textIn(inner['message']) || textIn(inner['detail']);
  const detailCode = textIn(objectIn(inner['details'])?.['error_code']);
  return {
    ...named(message, textIn(inner['param']), textIn(inner['code'])),
    ...(/^\w{1,64}$/.test(detailCode) ? { detailCode } : {}),
  };
}

function named(message: string, param: string, code: string): ErrorFacts {
  return factsOf(message, param, code === 'context_length_exceeded' || tooLong.test(message));
}

/** A failure that the upstream reports inside its answer. */
export function reported(error: Json): UpstreamFailure {
  const inner = objectIn(objectIn(error)?.['error']);
  const status = countIn(inner?.['status_code']) ?? statusByType[textIn(inner?.['type'])];
  return new UpstreamFailure('reported', { ...errorFacts(error), ...(status === undefined ? {} : { status }) });
}
