import { createClient, type Client, type Interceptor, type Transport } from '@connectrpc/connect';
import { createConnectTransport } from '@connectrpc/connect-node';
import { expect } from 'vitest';
import type { DescService } from '@bufbuild/protobuf';
import { DashboardService, type WhoAmIResponse } from '../../src/gen/tollgate/v1/dashboard_pb.ts';

/** Simulates a tab of a browser: a cookie, and the headers that a browser adds to each request. */
export class PageCaller {
  readonly origin: string;
  cookie = '';
  readonly #headers: Record<string, string> = {};
  readonly #transport: Transport;

  /** `origin`: the origin of the listener that served the page. */
  constructor(origin: string) {
    this.origin = origin;
    const interceptor: Interceptor = next => async request => {
      request.header.set('sec-fetch-site', 'same-origin');
      request.header.set('origin', origin);
      if (this.cookie !== '') request.header.set('cookie', this.cookie);
      for (const [name, value] of Object.entries(this.#headers)) request.header.set(name, value);
      const response = await next(request);
      this.#take(response.header);
      return response;
    };
    this.#transport = createConnectTransport({
      baseUrl: `${origin}/dashboard/rpc`,
      httpVersion: '1.1',
      interceptors: [interceptor],
    });
  }

  /** Signs in. Returns who is signed in. */
  async signIn(credential: string): Promise<WhoAmIResponse> {
    const { session, identity } = await this.client(DashboardService).signIn({ credential });
    expect(session, 'the session is in the cookie alone').toBe('');
    if (identity === undefined) throw new Error('nobody is signed in');
    return identity;
  }

  /** Sets a header for all further calls. */
  set(name: string, value: string): this {
    this.#headers[name] = value;
    return this;
  }

  client<S extends DescService>(service: S): Client<S> {
    return createClient(service, this.#transport);
  }

  #take(headers: Headers): void {
    for (const each of headers.getSetCookie()) this.cookie = each.split(';', 1)[0] ?? '';
  }
}
