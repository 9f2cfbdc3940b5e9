import type { Json, JsonObject } from '../codecs/codec.ts';
import { objectIn, objectsIn } from '../codecs/json.ts';
import { systemRuntime as runtime } from '../lib/runtime.ts';
import type { ProxySettings } from './connections.ts';
import { fetchOnce } from './fetch-body.ts';
import type { RevealableKey } from './http-target.ts';

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

/** Returns the entries of `GET /models`. Throws `UpstreamFailure` if it is not there, `SyntaxError` if it is no JSON; redirects are not followed. */
export async function listModels({ baseUrl, key, proxy, timeoutMs: ms }: ListingServer): Promise<JsonObject[]> {
  const timeouts = { connectMs: ms, firstEventMs: ms, idleMs: ms, totalMs: ms };
  const keys = key === undefined ? [] : [key];
  const what = { path: '/models', accept: 'application/json', bytesMax };
  const body = await fetchOnce({ baseUrl, keys, timeouts, proxy, runtime }, what);
  return objectsIn(objectIn(JSON.parse(body.toString('utf8')) as Json)?.['data']);
}
