import { lookup as systemLookup } from 'node:dns';
import { isIP, type LookupFunction } from 'node:net';
import { isPublicAddress } from './public-address.ts';

/** The addresses that an `AddressGuard` allows. */
export interface GuardOptions {
  /** Resolves the addresses of a host; absent: the system's resolver. */
  readonly lookup?: LookupFunction | undefined;
  /** Returns whether an IP address may be contacted; absent: addresses of the public internet may. */
  readonly isAllowed?: ((address: string) => boolean) | undefined;
  /** True if plain http is allowed, too. */
  readonly allowsHttp?: boolean;
}

/**
 * Checks URLs that come from outside, which must not reach the operator's own network: they must be https URLs of the public internet.
 */
export class AddressGuard {
  readonly #what: string;
  readonly #options: GuardOptions;
  readonly #isAllowed: (address: string) => boolean;

  /** `what`: the name of the URL in error messages ("the image’s address"). */
  constructor(what: string, options: GuardOptions) {
    this.#what = what;
    this.#options = options;
    this.#isAllowed = options.isAllowed ?? isPublicAddress;
  }

  /** Returns the parsed URL, or why it is refused. A host name is checked later, by `lookup`. */
  check(address: string): URL | string {
    const url = URL.canParse(address) ? new URL(address) : undefined;
    const isHttp = url?.protocol === 'http:' && this.#options.allowsHttp === true;
    const isPlain = url?.username === '' && url.password === '';
    if (url === undefined || !isPlain || (url.protocol !== 'https:' && !isHttp)) {
      return `${this.#what} is not plain ${this.#options.allowsHttp === true ? 'http or https' : 'https'}`;
    }
    // An IP address is checked here, because it is not looked up.
    const host = url.hostname.replace(/^\[(.*)\]$/, '$1');
    return isIP(host) !== 0 && !this.#isAllowed(host) ? `${this.#what} is not public` : url;
  }

  /** Looks up the IP addresses of a host and checks them. Connections must use it, so that they are made to the checked addresses. */
  readonly lookup: LookupFunction = (hostname, options, callback) => {
    const lookup = this.#options.lookup ?? systemLookup;
    lookup(hostname, options, (error, found, family) => {
      const addresses = typeof found === 'string' ? [found] : (found ?? []).map(({ address }) => address);
      // One address that is not allowed is enough to refuse the host, because any of its addresses might be used.
      const isBad = error === null && !addresses.every(this.#isAllowed);
      if (isBad) callback(new Error(`${this.#what} has a host with an address that is not public`), [], undefined);
      else callback(error, found, family);
    });
  };
}
