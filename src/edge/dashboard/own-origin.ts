import type { IncomingHttpHeaders } from 'node:http';

/**
 * Returns true if the browser declares that the request comes from a page of this very origin, or if no browser sent it. The same site is
 * not enough: cookies, even strict ones, are also sent from other ports of the host. Source: Fetch Metadata Request Headers,
 * "Sec-Fetch-Site".
 */
export function isOwnOrigin(headers: IncomingHttpHeaders): boolean {
  const { 'sec-fetch-site': site, origin } = headers;
  if (site !== undefined) return site === 'same-origin';
  if (origin === undefined) return true;
  const host = headers.host ?? headers[':authority'];
  return URL.canParse(origin) && new URL(origin).host === host;
}
