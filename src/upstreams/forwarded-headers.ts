/** Lower-case names and values. */
type Headers = Readonly<Record<string, string>>;

/** The headers of a caller that a provider gets. Any other could name another host, another credential or another account. */
const allowed = ['anthropic-version', 'anthropic-beta', 'traceparent'] as const;
/** No control characters, which could end a header and begin another. */
const printable = /^[\x20-\x7e]{1,4096}$/;

/** No headers. `forwardedHeaders` returns this object if it forwards none. */
export const noHeaders: Headers = {};

/** Returns those of a caller's headers that a provider gets. */
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
