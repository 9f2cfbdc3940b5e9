import { lookup as systemLookup } from 'node:dns';
import { isIP, type LookupFunction } from 'node:net';
import { isPublicAddress } from './public-address.ts';

/** The addresses that a guard allows. */
export interface GuardOptions {
  /** Resolves the addresses of a host; absent: the system's resolver. */
  readonly lookup?: LookupFunction | undefined;
  /** Returns whether an address may be contacted; absent: those of the public internet. */
  readonly isAllowed?: ((address: string) => boolean) | undefined;
  /** True if plain http is allowed, too. */
  readonly allowsHttp?: boolean;
}

/**
 * Allows only addresses of the public internet, over https: they come from outside, and must not reach the gateway's
 * own network.
 */
export class AddressGuard {
  readonly #what: string;
  readonly #options: GuardOptions;
  readonly #isAllowed: (address: string) => boolean;

  /** `what`: the name of the address in refusals ("the image’s address"). */
  constructor(what: string, options: GuardOptions) {
    this.#what = what;
    this.#options = options;
    this.#isAllowed = options.isAllowed ?? isPublicAddress;
  }

  /** Returns the address, or why it is refused. A host that has to be looked up is checked by `lookup`. */
  check(address: string): URL | string {
    const url = URL.canParse(address) ? new URL(address) : undefined;
    const isHttp = url?.protocol === 'http:' && this.#options.allowsHttp === true;
    const isPlain = url?.username === '' && url.password === '';
    if (url === undefined || !isPlain || (url.protocol !== 'https:' && !isHttp)) {
      return `${this.#what} is not plain ${this.#options.allowsHttp === true ? 'http or https' : 'https'}`;
    }
    // A literal IP address is not looked up.
    const host = url.hostname.replace(/^\[(.*)\]$/, '$1');
    return isIP(host) !== 0 && !this.#isAllowed(host) ? `${this.#what} is not public` : url;
  }

  /** Looks up the addresses of a host: the checked address is the one that is connected to. */
  readonly lookup: LookupFunction = (hostname, options, callback) => {
    const lookup = this.#options.lookup ?? systemLookup;
    lookup(hostname, options, (error, found, family) => {
      const addresses = typeof found === 'string' ? [found] : (found ?? []).map(({ address }) => address);
      // One bad address among good ones is refused as well, because any of them might be chosen.
      const isBad = error === null && !addresses.every(this.#isAllowed);
      if (isBad) callback(new Error(`${this.#what} has a host with an address that is not public`), [], undefined);
      else callback(error, found, family);
    });
  };
}
