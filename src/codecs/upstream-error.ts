import { UpstreamFailure, type UpstreamFailureFacts } from '../generation/upstream.ts';
import type { Json, JsonObject } from './codec.ts';
import { findMeaning } from './provider-errors.ts';
import { countIn, defined, listIn, objectIn, objectsIn, parsedJson, textIn } from './json.ts';

/** The content of an upstream's error, in a form for all protocols. Source: docs/errors.md "Errors of providers". */
export type ErrorFacts = Pick<
  UpstreamFailureFacts,
  'message' | 'param' | 'detailCode' | 'meaning' | 'status' | 'retryAfterMs'
>;

/** Returns the failure for an answer that does not follow the protocol. */
export function malformed(what: string): UpstreamFailure {
  return new UpstreamFailure('malformed', { cause: new Error(what) });
}

/** Returns a failure that the upstream reports inside its answer. */
export function makeReportedFailure(facts: ErrorFacts, status: number | undefined): UpstreamFailure {
  return new UpstreamFailure('reported', { ...facts, ...defined({ status }) });
}

/** Reads the body of an error. `ofValue` gets its JSON, or its text; a web page or an empty body counts as an empty text. */
export function readErrorBody(body: string, ofValue: (value: Json) => ErrorFacts): ErrorFacts {
  const text = body.trim();
  const value = parsedJson(text);
  return ofValue(value === undefined ? text.replace(/^<.*/s, '') : value);
}

/** Returns the object that describes an error: the value, or its member `error` or `errors`; of a list, the first entry. */
export function errorIn(value: Json | undefined): JsonObject | undefined {
  const body = objectIn(value) ?? objectIn(listIn(value)[0]);
  const error = body?.['error'] ?? body?.['errors'];
  return typeof error === 'string'
    ? { message: error, code: body?.['code'] ?? null }
    : (objectIn(error) ?? objectIn(listIn(error)[0]) ?? body);
}

/** Reads an error in any of the forms that compatible servers use; a text is the error's message. `status`: of the answer, or the one that the error names; undefined: there is none. */
export function errorFacts(value: Json, status: number | undefined): ErrorFacts {
  const error = typeof value === 'string' ? { message: value } : errorIn(value);
  if (error === undefined) return {};
  const message = readMessage(error);
  const details = [...objectsIn(error['details']), objectIn(error['details']) ?? {}];
  const codes = [error['code'], error['type'], ...details.flatMap(each => [each['reason'], each['error_code']])];
  return defined({
    message: message === '' ? undefined : message.slice(0, 2_000),
    param: textIn(error['param']) || undefined,
    meaning: findMeaning({ status, codes: codes.map(code => textIn(code)).filter(code => code !== ''), message }),
  });
}

/** xAI's addition to a refusal about the content: the operator's team and key. */
const ownersNames = /\s*\b(?:Team|API key ID): [^,]*,/g;

/** Returns the message of an error object. Servers built on FastAPI put it into `detail`: a text, or one entry for each wrong field. OpenRouter has the text of the provider behind it in `metadata.raw`. */
function readMessage({ message, msg, detail, metadata }: JsonObject): string {
  const entries = objectsIn(detail).map(each => textIn(each['msg']));
  const own = textIn(message) || textIn(msg) || textIn(detail) || entries.filter(text => text !== '').join('; ');
  const raw = own === 'Provider returned error' ? textIn(objectIn(metadata)?.['raw']).trim() : '';
  if (raw === '') return own.replace(ownersNames, '');
  const inner = parsedJson(raw);
  return (inner === undefined ? raw.replace(/^<.*/s, '') : readMessage(errorIn(inner) ?? {})) || own;
}

/** HTTP statuses by the type or code of an error inside an answer. Source: platform.claude.com, errors; the errors of Responses in the types of `openai`; docs/errors.md. */
const statusByName: Readonly<Record<string, number>> = {
  invalid_request_error: 400,
  invalid_request: 400,
  invalid_prompt: 400,
  context_length_exceeded: 400,
  upstream_rejected: 400,
  authentication_error: 401,
  billing_error: 402,
  permission_error: 403,
  not_found_error: 404,
  not_found: 404,
  request_too_large: 413,
  rate_limit_error: 429,
  rate_limit_exceeded: 429,
  too_many_requests: 429,
  api_error: 500,
  server_error: 500,
  overloaded: 503,
  timeout_error: 504,
  overloaded_error: 529,
};

/** Returns the HTTP status that an error inside an answer names, as a number or by its code or type; undefined if it names none. */
export function namedStatus({ status_code: own, status, code, type }: JsonObject): number | undefined {
  const number = [own, status, code].map(countIn).find(each => each !== undefined && each >= 400 && each <= 599);
  return number ?? statusByName[textIn(code)] ?? statusByName[textIn(type)];
}
