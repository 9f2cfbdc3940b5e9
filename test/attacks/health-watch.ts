import { setTimeout as sleep } from 'node:timers/promises';
import { Agent, request } from 'undici';

/** Asks a gateway again and again whether it is alive, on a connection of its own, and remembers how long it took at most. */
export class HealthWatch {
  readonly #url: string;
  readonly #agent = new Agent({ connections: 1 });
  #isOver = false;
  readonly #watching: Promise<void>;
  longestMs = 0;
  asked = 0;

  constructor(url: string) {
    this.#url = `${url}/healthz`;
    this.#watching = this.#watch();
  }

  /** Stops asking; returns the longest answer in ms. */
  async end(): Promise<number> {
    this.#isOver = true;
    await this.#watching;
    await this.#agent.close();
    return this.longestMs;
  }

  async #watch(): Promise<void> {
    while (!this.#isOver) {
      const began = performance.now();
      const { body } = await request(this.#url, { dispatcher: this.#agent });
      await body.text();
      this.longestMs = Math.max(this.longestMs, performance.now() - began);
      this.asked += 1;
      await sleep(2);
    }
  }
}
