import type { IncomingMessage } from 'node:http';
import { BlockList, isIP } from 'node:net';

/** Parses an address or a network such as `10.0.0.0/8`; undefined if the text is neither. */
export function readNetwork(text: string): { readonly address: string; readonly prefix: number } | undefined {
  const [, address = '', bits] = /^([^/]+)(?:\/(\d{1,3}))?$/.exec(text) ?? [];
  const family = isIP(address);
  const longest = family === 4 ? 32 : 128;
  const prefix = bits === undefined ? longest : Number(bits);
  return family === 0 || prefix > longest ? undefined : { address, prefix };
}

/** Finds the addresses of clients, also behind proxies that the operator trusts. Source: docs/reverse-proxy.md "The client's address". */
export class ClientAddresses {
  readonly #trusted: () => readonly string[];
  /** The networks that `#list` was made of. */
  #networks: readonly string[] | undefined;
  #list = new BlockList();

  /** `trusted` returns addresses and networks (`10.0.0.0/8`). */
  constructor(trusted: () => readonly string[]) {
    this.#trusted = trusted;
  }

  /**
   * Returns the client's address: that of the connection, or if that is a trusted proxy, the last address of `x-forwarded-for` that is not itself one. What is no address counts as
   * untrusted, and then the connection's address is returned. '': the connection has ended.
   */
  find({
    socket,
    headers,
  }: Pick<IncomingMessage, 'headers'> & { readonly socket: { readonly remoteAddress?: string | undefined } }): string {
    const peer = socket.remoteAddress ?? '';
    const forwarded = headers['x-forwarded-for'];
    if (forwarded === undefined || !this.#isTrusted(peer)) return peer;
    const hops = (Array.isArray(forwarded) ? forwarded.join(',') : forwarded).split(',');
    const client = hops.map(withoutPort).findLast(hop => !this.#isTrusted(hop));
    return client === undefined || isIP(client) === 0 ? peer : client;
  }

  #isTrusted(address: string): boolean {
    const family = isIP(address);
    if (family === 0) return false;
    const networks = this.#trusted();
    if (networks.length === 0) return false;
    if (networks !== this.#networks) this.#read(networks);
    return this.#list.check(address, family === 4 ? 'ipv4' : 'ipv6');
  }

  #read(networks: readonly string[]): void {
    this.#networks = networks;
    this.#list = new BlockList();
    for (const text of networks) {
      const network = readNetwork(text);
      if (network === undefined) continue;
      this.#list.addSubnet(network.address, network.prefix, isIP(network.address) === 4 ? 'ipv4' : 'ipv6');
    }
  }
}

/** Returns an address without the port that some proxies add: `192.0.2.1:4711`, `[2001:db8::1]:4711`. */
function withoutPort(text: string): string {
  const hop = text.trim();
  return /^\[(.+)\](?::\d+)?$/.exec(hop)?.[1] ?? /^(\d+\.\d+\.\d+\.\d+):\d+$/.exec(hop)?.[1] ?? hop;
}
