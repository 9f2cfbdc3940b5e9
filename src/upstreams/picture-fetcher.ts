import type { LookupFunction } from 'node:net';
import { UpstreamFailure } from '../generation/upstream.ts';
import type { Runtime } from '../lib/runtime.ts';
import { AddressGuard } from './address-guard.ts';
import { fetchOnce } from './fetch-body.ts';

/** How pictures are fetched. */
export interface PictureFetcherOptions {
  readonly bytesMax: number;
  readonly runtime: Runtime;
  /** Finds the addresses of a host; absent: the system's way. */
  readonly lookup?: LookupFunction;
  /** Whether an address may be asked; absent: those of the public internet. */
  readonly isAllowed?: (address: string) => boolean;
}

/** A picture that does not come in that time is none. */
const timeouts = { connectMs: 10_000, firstEventMs: 30_000, idleMs: 20_000, totalMs: 60_000 };

/**
 * Fetches pictures from addresses that an upstream names. Nobody here chose these addresses, so they are asked only over https, only on the public internet (the
 * address that is checked is the one that is connected to), without a credential, and no redirect is followed. Never through a proxy, which would ask in
 * the gateway's stead whatever it can reach.
 */
export class PictureFetcher {
  readonly #options: PictureFetcherOptions;
  readonly #guard: AddressGuard;

  constructor(options: PictureFetcherOptions) {
    this.#options = options;
    const { lookup, isAllowed } = options;
    this.#guard = new AddressGuard('the picture’s address', { lookup, isAllowed });
  }

  /** The bytes. Throws `UpstreamFailure` `malformed` where the address is not to be asked or has no picture, and the signal's reason. */
  async fetch(address: string, signal: AbortSignal): Promise<Buffer> {
    const url = this.#checked(address);
    const { bytesMax, runtime } = this.#options;
    const server = { baseUrl: url.origin, keys: [], timeouts, proxy: {}, runtime, lookup: this.#guard.lookup };
    try {
      return await fetchOnce(server, { path: url.pathname + url.search, accept: 'image/*', bytesMax }, signal);
    } catch (thrown) {
      const status = thrown instanceof UpstreamFailure ? thrown.facts.status : undefined;
      throw status === undefined ? thrown : refused(`the picture’s address answers ${status}`);
    }
  }

  #checked(address: string): URL {
    const checked = this.#guard.check(address);
    if (typeof checked === 'string') throw refused(checked);
    return checked;
  }
}

function refused(why: string): UpstreamFailure {
  return new UpstreamFailure('malformed', { cause: new Error(why) });
}
