import type { Dispatcher } from 'undici';
import { type ConnectionSettings, openConnections } from './connections.ts';

/** Connections to one origin that may be closed while they are used: calls that run end on them, and one that still follows gets connections that close after it. */
export class LastingConnections {
  readonly #settings: ConnectionSettings;
  /** Undefined before the first call, and while a closed one has no call. */
  #connections: Dispatcher | undefined;
  #running = 0;
  #closed = false;

  constructor(settings: ConnectionSettings) {
    this.#settings = settings;
  }

  /** Makes a call on the connections. */
  async use<Value>(call: (connections: Dispatcher) => Promise<Value>): Promise<Value> {
    this.#connections ??= openConnections(this.#settings);
    this.#running += 1;
    try {
      return await call(this.#connections);
    } finally {
      this.#running -= 1;
      if (this.#closed && this.#running === 0) await this.#disconnect();
    }
  }

  /** Lets running calls end, then closes. */
  async close(): Promise<void> {
    this.#closed = true;
    await this.#disconnect();
  }

  async #disconnect(): Promise<void> {
    const connections = this.#connections;
    this.#connections = undefined;
    await connections?.close();
  }
}
