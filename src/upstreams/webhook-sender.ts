import { AddressGuard } from './address-guard.ts';
import { openConnections } from './connections.ts';

/** A message to a webhook. */
export interface WebhookMessage {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

const connectMs = 10_000;

/** Returns why a URL can't be that of a webhook; undefined: it can. `allowPrivate`: addresses of the operator's network and plain http are allowed, too. */
export function findAddressFault(url: string, allowPrivate: boolean): string | undefined {
  const checked = toGuard(allowPrivate).check(url);
  return typeof checked === 'string' ? checked : undefined;
}

/**
 * Posts a message. Returns the status of the answer, whose body is not read. Throws the connection's error, the signal's reason if it is aborted, or an `Error` if the URL is not allowed. No redirect is followed. No proxy is used, because it could reach internal addresses.
 */
export async function sendWebhook(
  message: WebhookMessage,
  allowPrivate: boolean,
  signal: AbortSignal,
): Promise<number> {
  const guard = toGuard(allowPrivate);
  const url = guard.check(message.url);
  if (typeof url === 'string') throw new Error(url);
  const connections = openConnections({ origin: url.origin, connectMs, proxy: {}, lookup: guard.lookup });
  try {
    const { statusCode, body } = await connections.request({
      method: 'POST',
      path: url.pathname + url.search,
      headers: { 'content-type': 'application/json', 'user-agent': 'tollgate', ...message.headers },
      body: message.body,
      signal,
    });
    // The body emits an error because it is not read to its end. That error is ignored.
    body.on('error', () => undefined).destroy();
    return statusCode;
  } finally {
    await connections.destroy();
  }
}

function toGuard(allowPrivate: boolean): AddressGuard {
  return new AddressGuard('the webhook’s address', allowPrivate ? { isAllowed: () => true, allowsHttp: true } : {});
}
