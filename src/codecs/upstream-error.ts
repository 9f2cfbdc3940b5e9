import { UpstreamFailure, type UpstreamFailureFacts } from '../generation/upstream.ts';
import type { Json, JsonObject } from './codec.ts';
import { countIn, defined, listIn, objectIn, objectsIn, parsedJson, textIn } from './json.ts';

/** What an upstream's error says, in a form for all protocols. Source: docs/errors.md "Errors of providers". */
export type ErrorFacts = Pick<
  UpstreamFailureFacts,
  | 'message'
  | 'param'
  | 'detailCode'
  | 'contextLengthExceeded'
  | 'blamesContent'
  | 'isLoading'
  | 'billing'
  | 'status'
  | 'retryAfterMs'
>;

/** How a protocol reports that the input is too long. */
export interface TooLong {
  /** The codes or types of such an error; undefined if there are none. */
  readonly code?: RegExp;
  /** The messages of such an error, if it has no code. */
  readonly message: RegExp;
}

/**
 * Messages by which servers report that they can't handle the content of a request, although the status may be that of a server failure:
 * llama.cpp and Ollama answer 500 for images that their model can't read, for messages that the chat template refuses, and for schemas that
 * they can't compile.
 */
const contentWords = new RegExp(
  [
    String.raw`(image|audio|video|vision|multi-?modal)s?\b.{0,40}\b(not|n't|un)\s?(be )?(support|allow|accept)`,
    String.raw`(not|n't|un)\s?support(s|ed)?\b.{0,40}\b(image|audio|video|vision|multi-?modal|tools?|thinking|response_format|schema)`,
    String.raw`missing data required for image|mmproj|(failed|unable) to (load|decode|process) (image|audio)`,
    String.raw`jinja|chat template|template (error|rendering)|conversation roles must alternate|raise_exception`,
    String.raw`(json[ _-]?schema|grammar|regex pattern|structured output).{0,60}(fail|invalid|error|unsupported|not supported|unrecognized)`,
    String.raw`(fail\w*|invalid|error|unsupported|unrecognized).{0,60}(json[ _-]?schema|\bschema\b|grammar)`,
    String.raw`does not support (tools|thinking|images|chat)|tools? param requires`,
  ].join('|'),
  'i',
);

/** Messages by which local servers report that their model is not loaded yet. */
const loadingWords = /\bloading model\b|\bmodel (is )?(still |currently )?loading\b/i;
/** The codes and types of errors that are about the operator's bill. */
const billingCode =
  /^(?:insufficient_quota|billing(?:_\w+)?|insufficient_(?:balance|funds|credits?)|quota_exceeded|payment_required)$/i;
/** Beginnings of messages about billing. Only the beginning is matched, because the rest of a message may quote the client's text. */
const billingMessage =
  /^\W*(?:you(?:r|’ve| have)? (?:exceeded your current quota|credit balance|account (?:is not active|balance))|insufficient (?:balance|funds|credits?|quota)|payment required|this request requires more credits)/i;

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

/** Reads an error in any of the forms that compatible servers use; a text is the error's message. */
export function errorFacts(value: Json, tooLong: TooLong): ErrorFacts {
  const error = typeof value === 'string' ? { message: value } : errorIn(value);
  if (error === undefined) return {};
  const message = readMessage(error);
  const code = textIn(error['code']) || textIn(error['type']);
  const isBilling =
    [error['code'], error['type']].some(each => billingCode.test(textIn(each))) || billingMessage.test(message);
  return defined({
    billing: isBilling ? true : undefined,
    message: message === '' ? undefined : message.slice(0, 2_000),
    param: textIn(error['param']) || undefined,
    blamesContent: contentWords.test(message) ? true : undefined,
    isLoading: loadingWords.test(message) ? true : undefined,
    contextLengthExceeded: tooLong.code?.test(code) === true || tooLong.message.test(message) ? true : undefined,
  });
}

/** Returns the message of an error object. Servers built on FastAPI put it into `detail`: a text, or one entry for each wrong field. */
function readMessage({ message, msg, detail }: JsonObject): string {
  const entries = objectsIn(detail).map(each => textIn(each['msg']));
  return textIn(message) || textIn(msg) || textIn(detail) || entries.filter(text => text !== '').join('; ');
}

/** Returns the first of the values that is an HTTP status of an error; undefined if none is. */
export function statusIn(values: readonly (Json | undefined)[]): number | undefined {
  return values.map(countIn).find(status => status !== undefined && status >= 400 && status <= 599);
}
