import type { LookupFunction } from 'node:net';
import { UpstreamFailure } from '../generation/upstream.ts';
import type { Runtime } from '../lib/runtime.ts';
import { AddressGuard } from './address-guard.ts';
import { fetchOnce } from './fetch-body.ts';

/** The limits for fetching images. */
export interface ImageFetcherOptions {
  readonly bytesMax: number;
  readonly runtime: Runtime;
  /** Resolves the addresses of a host; absent: the system's resolver. */
  readonly lookup?: LookupFunction;
  /** Returns whether an IP address may be contacted; absent: addresses of the public internet may. */
  readonly isAllowed?: (address: string) => boolean;
}

/** An image that does not arrive within these times counts as missing. */
const timeouts = { connectMs: 10_000, firstEventMs: 30_000, idleMs: 20_000, totalMs: 60_000 };

/**
 * Fetches images from URLs that an upstream returns. Because these come from outside, connections are made only over https and only to addresses of the public internet (to exactly the address that was checked), no credential is sent, and no redirect is followed. No proxy is used, because it could reach internal addresses.
 */
export class ImageFetcher {
  readonly #options: ImageFetcherOptions;
  readonly #guard: AddressGuard;

  constructor(options: ImageFetcherOptions) {
    this.#options = options;
    const { lookup, isAllowed } = options;
    this.#guard = new AddressGuard('the image’s address', { lookup, isAllowed });
  }

  /**
   * Returns the bytes of an image. Throws `UpstreamFailure` `malformed` if the URL is not allowed or returns no image; if the signal is aborted, its reason.
   */
  async fetch(address: string, signal: AbortSignal): Promise<Buffer> {
    const url = this.#check(address);
    const { bytesMax, runtime } = this.#options;
    const server = { baseUrl: url.origin, keys: [], timeouts, proxy: {}, runtime, lookup: this.#guard.lookup };
    try {
      return await fetchOnce(server, { path: url.pathname + url.search, accept: 'image/*', bytesMax }, signal);
    } catch (thrown) {
      const status = thrown instanceof UpstreamFailure ? thrown.facts.status : undefined;
      throw status === undefined ? thrown : refused(`the image’s address answers ${status}`);
    }
  }

  #check(address: string): URL {
    const checked = this.#guard.check(address);
    if (typeof checked === 'string') throw refused(checked);
    return checked;
  }
}

function refused(why: string): UpstreamFailure {
  return new UpstreamFailure('malformed', { cause: new Error(why) });
}
