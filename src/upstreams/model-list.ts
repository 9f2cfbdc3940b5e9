import { request } from 'undici';
import type { Json, JsonObject } from '../codecs/codec.ts';
import { objectIn, objectsIn } from '../codecs/json.ts';
import { openConnections, type ProxySettings } from './connections.ts';
import type { RevealableKey } from './key-ring.ts';

/** A server that is asked which models it has. */
export interface ListingServer {
  /** With the version ("http://127.0.0.1:11434/v1"). */
  readonly baseUrl: string;
  /** Absent: it takes none. */
  readonly key?: RevealableKey;
  readonly proxy: ProxySettings;
  /** For all of the answer. */
  readonly timeoutMs: number;
}

/** More is no list of models. */
const bytesMax = 8 * 1024 ** 2;

/** The entries of `GET /models`, as the server tells them. Throws where it is not there, or answers something else; redirects are not followed. */
export async function listModels({ baseUrl, key, proxy, timeoutMs }: ListingServer): Promise<JsonObject[]> {
  const { origin } = new URL(baseUrl);
  const connections = openConnections({ origin, connectMs: timeoutMs, proxy });
  try {
    const { statusCode, body } = await request(`${baseUrl}/models`, {
      dispatcher: connections,
      headers: {
        accept: 'application/json',
        'user-agent': 'tollgate',
        ...(key === undefined ? {} : { authorization: `Bearer ${key.reveal()}` }),
      },
      signal: AbortSignal.timeout(timeoutMs),
    });
    const parts: Buffer[] = [];
    let bytes = 0;
    // Bytes of a body are buffers.
    for await (const part of body as AsyncIterable<Buffer>) {
      bytes += part.length;
      if (bytes > bytesMax) throw new Error('the list is too long');
      parts.push(part);
    }
    if (statusCode !== 200) throw new Error(`status ${statusCode}`);
    return objectsIn(objectIn(JSON.parse(Buffer.concat(parts).toString('utf8')) as Json)?.['data']);
  } finally {
    await connections.destroy();
  }
}
