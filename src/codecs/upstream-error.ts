import type { UpstreamFailureFacts } from '../generation/upstream.ts';
import type { Json, JsonObject } from './codec.ts';
import { listIn, objectIn, parsedJson, textIn } from './json.ts';

/** What upstreams say of a failure, as far as the protocols agree. Source: wire.md B5. */

/** What the body of an error says: `ofValue` reads its JSON, `ofText` takes any other text. A web page or an empty body says nothing. */
export function readErrorBody<Facts extends object>(
  body: string,
  ofValue: (value: Json) => Facts,
  ofText: (text: string) => Facts,
): Facts | Record<string, never> {
  const text = body.trim();
  const value = parsedJson(text);
  if (value !== undefined) return ofValue(value);
  return text === '' || text.startsWith('<') ? {} : ofText(text);
}

/** The message of an error object; `detail` is how servers that are built on FastAPI put it: a text, or one entry for each wrong field. */
export function messageOf({ message, msg, detail }: JsonObject): string {
  const entries = listIn(detail).map(each => textIn(objectIn(each)?.['msg']));
  return textIn(message) || textIn(msg) || textIn(detail) || entries.filter(text => text !== '').join('; ');
}

/** The facts of a failure; '' is left out, and a message is cut to 2,000 characters. */
export function factsOf(
  message: string,
  param: string,
  isTooLong: boolean,
): Pick<UpstreamFailureFacts, 'message' | 'param' | 'contextLengthExceeded'> {
  return {
    ...(message === '' ? {} : { message: message.slice(0, 2_000) }),
    ...(param === '' ? {} : { param }),
    ...(isTooLong ? { contextLengthExceeded: true } : {}),
  };
}
