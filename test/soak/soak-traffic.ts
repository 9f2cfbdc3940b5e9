import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { setTimeout as wait } from 'node:timers/promises';
import type { Gateway } from './soak-gateway.ts';

/** What all clients together have received. */
export interface Known {
  /** The costs of whole answers in dollars, by request id. */
  readonly charged: Map<string, number>;
  readonly counts: Record<'whole' | 'streamed' | 'aborted' | 'background' | 'images' | 'refused', number>;
}

const clients = 6;
/** The time within which background work must end once all faults are over, in ms. */
const stuckMs = 60_000;
const pauseMs = 15;
const model = 'sim/small';

interface Usage {
  readonly cost: number;
}

/** Clients of all kinds. Each continues after any answer. */
export class Traffic {
  readonly #gateway: () => Gateway;
  readonly #known: Known;
  /** The paths of background work. */
  readonly #begun: string[] = [];
  #clients: Promise<void>[] = [];
  #isStopped = false;

  constructor(gateway: () => Gateway, known: Known) {
    this.#gateway = gateway;
    this.#known = known;
  }

  start(): void {
    this.#clients = Array.from({ length: clients }, (_, index) => this.#run(index));
  }

  /** Resolves when every client has its last answer. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    await Promise.all(this.#clients);
  }

  /** Throws if something in the background has not ended within a minute. */
  async expectNothingStuck(): Promise<void> {
    const deadline = performance.now() + stuckMs;
    for (const path of this.#begun) {
      for (;;) {
        const answer = await this.#fetch(path, {});
        const { status } = (await answer.json()) as { status?: string };
        // The response was evicted, or its beginning was never stored.
        if (answer.status === 404 || (status !== 'queued' && status !== 'in_progress')) break;
        assert(performance.now() < deadline, `${path} is stuck`);
        await wait(50);
      }
    }
  }

  /** Throws if an answer is charged twice, or at another cost than its client received. */
  async expectChargesCorrect(): Promise<void> {
    const records = new Map<string, number>();
    for (let offset = 0; ; offset += 1_000) {
      const { url, managementKey } = this.#gateway();
      const headers = { authorization: `Bearer ${managementKey}` };
      const answer = await fetch(`${url}/v1/account/activity?limit=1000&offset=${offset}`, { headers });
      const { data } = (await answer.json()) as { data: { request_id: string; cost: number }[] };
      for (const { request_id: id, cost } of data) {
        assert(!records.has(id), `${id} is recorded twice`);
        records.set(id, cost);
      }
      if (data.length < 1_000) break;
    }
    for (const [id, cost] of this.#known.charged)
      assert.equal(records.get(id), cost, `${id} is charged as its client saw`);
  }

  async #run(index: number): Promise<void> {
    for (let turn = index; !this.#isStopped; turn += 1) {
      try {
        await this.#turn(turn);
      } catch {
        // The gateway was killed, or its disk failed.
        this.#known.counts.refused += 1;
        await wait(100);
      }
      await wait(pauseMs);
    }
  }

  async #turn(turn: number): Promise<void> {
    const kind = turn % 12;
    if (kind === 0)
      return this.#begin('/v1/responses', { model, input: '!sim tokens=40\nx', background: true }, 'background');
    if (kind === 1) {
      const image = { model: 'sim/image', size: '64x64', async: true, prompt: 'x' };
      return this.#begin('/v1/images/generations', image, 'images');
    }
    if (kind < 4) return this.#abort();
    return kind < 8 ? this.#whole(turn) : this.#stream(turn);
  }

  async #whole(turn: number): Promise<void> {
    const key = turn % 2 === 0 ? { 'idempotency-key': randomUUID() } : {};
    const body = { model, messages: [{ role: 'user', content: `!sim tokens=${10 + (turn % 60)}\nx` }] };
    const answer = await this.#fetch('/v1/chat/completions', body, key);
    const { usage } = (await answer.json()) as { usage?: Usage };
    if (usage === undefined) throw new Error('refused');
    this.#known.charged.set(answer.headers.get('x-request-id') ?? '', usage.cost);
    this.#known.counts.whole += 1;
  }

  async #stream(turn: number): Promise<void> {
    const content = `!sim tokens=${30 + (turn % 90)}\nx`;
    const body = {
      model,
      stream: true,
      stream_options: { include_usage: true },
      messages: [{ role: 'user', content }],
    };
    const answer = await this.#fetch('/v1/chat/completions', body);
    const text = await answer.text();
    const cost = /"cost":([\d.e-]+)/.exec(text)?.[1];
    if (!text.includes('[DONE]') || cost === undefined) throw new Error('broken off');
    this.#known.charged.set(answer.headers.get('x-request-id') ?? '', Number(cost));
    this.#known.counts.streamed += 1;
  }

  async #abort(): Promise<void> {
    const abort = new AbortController();
    const body = { model, stream: true, messages: [{ role: 'user', content: '!sim tokens=400 tps=800\nx' }] };
    const answer = await this.#fetch('/v1/chat/completions', body, {}, abort.signal);
    await answer.body?.getReader().read();
    abort.abort();
    this.#known.counts.aborted += 1;
  }

  async #begin(path: string, body: object, count: 'background' | 'images'): Promise<void> {
    const answer = await this.#fetch(path, body);
    const { id, task_id: task } = (await answer.json()) as { id?: string; task_id?: string };
    if (answer.status >= 400) throw new Error('refused');
    this.#begun.push(task === undefined ? `/v1/responses/${id}` : `/v1/images/tasks/${task}`);
    this.#known.counts[count] += 1;
  }

  async #fetch(path: string, body: object, more: Record<string, string> = {}, signal?: AbortSignal): Promise<Response> {
    const { url, apiKey } = this.#gateway();
    const headers = { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json', ...more };
    const isRead = Object.keys(body).length === 0;
    const request = isRead ? { headers } : { method: 'POST', headers, body: JSON.stringify(body) };
    return fetch(url + path, signal === undefined ? request : { ...request, signal });
  }
}
