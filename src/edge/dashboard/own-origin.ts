import type { IncomingHttpHeaders } from 'node:http';

/**
 * Returns true if the browser declares that the request comes from a page of the same origin, or if no browser sent it. The same site is
 * not enough, because browsers send cookies, even strict ones, also from other ports of the host. Source: Fetch Metadata Request Headers,
 * "Sec-Fetch-Site".
 */
export function isOwnOrigin(headers: IncomingHttpHeaders): boolean {
  const { 'sec-fetch-site': site, origin } = headers;
  if (site !== undefined) return site === 'same-origin';
  if (origin === undefined) return true;
  const host = headers.host ?? headers[':authority'];
  return URL.canParse(origin) && new URL(origin).host === host;
}
