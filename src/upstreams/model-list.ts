import type { Json, JsonObject } from '../codecs/codec.ts';
import { objectIn, objectsIn } from '../codecs/json.ts';
import { systemRuntime } from '../lib/runtime.ts';
import { authentications } from './authentication.ts';
import { openConnections, type ProxySettings } from './connections.ts';
import type { RevealableKey } from './key-ring.ts';
import { fetchWhole } from './whole-body.ts';

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

/** Returns the entries of `GET /models`. Throws `UpstreamFailure` and `Error` if it is not there, or answers something else; redirects are not followed. */
export async function listModels({ baseUrl, key, proxy, timeoutMs: ms }: ListingServer): Promise<JsonObject[]> {
  const { origin, pathname, search } = new URL(`${baseUrl}/models`);
  const credential = key === undefined ? [] : authentications.bearer(key.reveal());
  const connections = openConnections({ origin, connectMs: ms, proxy });
  const timeouts = { connectMs: ms, firstEventMs: ms, idleMs: ms, totalMs: ms };
  try {
    const headers = ['accept', 'application/json', 'user-agent', 'tollgate', ...credential];
    const { head, body } = await fetchWhole(
      { origin, path: pathname + search, headers, body: null },
      { connections, timeouts, runtime: systemRuntime, bytesMax },
    );
    if (head.status !== 200) throw new Error(`status ${head.status}`);
    return objectsIn(objectIn(JSON.parse(body.toString('utf8')) as Json)?.['data']);
  } finally {
    await connections.destroy();
  }
}
