/** Headers by their names in lower case. */
type Headers = Readonly<Record<string, string>>;

/** The client's headers that a provider gets. Any other header could name another host, credential or account. */
const allowed = ['anthropic-version', 'anthropic-beta', 'traceparent'] as const;
/** Control characters are not allowed, because they could end a header and begin another one. */
const printable = /^[\x20-\x7e]{1,4096}$/;

/** No headers. `forwardedHeaders` returns this object if it forwards none. */
export const noHeaders: Headers = {};

/** Returns those of a client's headers that a provider gets. */
export function forwardedHeaders(headers: Headers = noHeaders): Headers {
  let forwarded: Record<string, string> | undefined;
  for (const name of allowed) {
    const value = headers[name];
    if (value === undefined || !printable.test(value)) continue;
    forwarded ??= {};
    forwarded[name] = value;
  }
  return forwarded ?? noHeaders;
}
