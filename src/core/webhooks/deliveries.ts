import { isoTime } from '../../lib/clock.ts';
import type { Runtime } from '../../lib/runtime.ts';
import type { SealedBox } from '../../lib/sealed-box.ts';
import type { DueDelivery, Outbox } from '../../ledger/webhooks.ts';
import type { WebhookMessage } from '../../upstreams/webhook-sender.ts';
import { signWebhook } from './signature.ts';
import { openSecret, toEventId } from './webhook-fields.ts';

/** Dependencies of `Deliveries`. */
export interface DeliveryOptions {
  readonly outbox: Pick<Outbox, 'hasWebhooks' | 'listDueDeliveries' | 'reportDelivery' | 'remindOfExpiry'>;
  readonly box: SealedBox;
  readonly runtime: Runtime;
  /** Sends a message. Returns the HTTP status of the response. */
  readonly send: (message: WebhookMessage, signal: AbortSignal) => Promise<number>;
  /** Called with each error of the delivery loop, which then continues. */
  readonly failed: (error: unknown) => void;
}

/** How often the outbox is polled. */
const pollMs = 1_000;
/** How often keys that expire soon are searched for. */
const remindMs = 30_000;
const timeoutMs = 10_000;
/** The most attempts that run at once. */
const runningMax = 20;
const seconds = 1_000;
const minutes = 60 * seconds;
const hours = 60 * minutes;
/** Delays between the end of a failed attempt and the next one. The last delay repeats. */
const delaysMs = [4 * seconds, 25 * seconds, 2 * minutes, 10 * minutes, 30 * minutes, hours, 3 * hours, 6 * hours];
const errorLengthMax = 300;

/**
 * Delivers events to webhooks: each at least once, retried for three days, and to each webhook in order among the events of one scope (such as a key, a group or an account). If `start` finds no webhooks, nothing runs until it is called again.
 */
export class Deliveries {
  readonly #options: DeliveryOptions;
  /** The running deliveries, by webhook id and event id. For each webhook the outbox lists only the oldest event of each scope, so later events of the scope wait. */
  readonly #running = new Map<string, AbortController>();
  /** Deliveries that ended during the current read of the outbox, which may still list them. */
  readonly #ended = new Set<string>();
  #timer: ReturnType<Runtime['after']> | undefined;
  #isStopped = false;
  #isPolling = false;
  #remindedMs = Number.NEGATIVE_INFINITY;

  constructor(options: DeliveryOptions) {
    this.#options = options;
  }

  /** True once the loop has been started. It stays true, even if the last webhook is deleted. */
  get isNeeded(): boolean {
    return this.#timer !== undefined;
  }

  /** Starts the loop if there are webhooks. Call it again when a webhook was created. */
  async start(): Promise<void> {
    try {
      if (this.#timer === undefined && !this.#isStopped && (await this.#options.outbox.hasWebhooks())) this.#schedule();
    } catch (error) {
      this.#options.failed(error);
      this.#schedule();
    }
  }

  /** Stops the loop. Running attempts are aborted; the next process repeats them. */
  stop(): void {
    this.#isStopped = true;
    this.#timer?.cancel();
    for (const attempt of this.#running.values()) attempt.abort();
  }

  #schedule(): void {
    if (this.#isStopped) return;
    this.#timer?.cancel();
    this.#timer = this.#options.runtime.after(pollMs, () => void this.#poll());
  }

  async #poll(): Promise<void> {
    if (this.#isPolling) return;
    this.#isPolling = true;
    const { outbox, runtime, failed } = this.#options;
    try {
      if (runtime.monotonicMs() - this.#remindedMs >= remindMs) {
        this.#remindedMs = runtime.monotonicMs();
        await outbox.remindOfExpiry();
      }
      this.#ended.clear();
      const due = await outbox.listDueDeliveries(runningMax * 2);
      for (const delivery of due) {
        if (this.#isStopped || this.#running.size >= runningMax) break;
        const name = `${delivery.webhookId} ${delivery.eventId}`;
        if (!this.#running.has(name) && !this.#ended.has(name)) void this.#deliver(delivery, name);
      }
    } catch (error) {
      failed(error);
    } finally {
      this.#isPolling = false;
      this.#schedule();
    }
  }

  async #deliver(delivery: DueDelivery, name: string): Promise<void> {
    const { outbox, failed } = this.#options;
    const attempt = new AbortController();
    this.#running.set(name, attempt);
    try {
      const outcome = await this.#attempt(delivery, attempt);
      // An attempt that `stop` aborted has neither succeeded nor failed.
      if (outcome === undefined) return;
      const { webhookId, eventId, attempts } = delivery;
      await outbox.reportDelivery({ webhookId, eventId, attempts: attempts + 1, ...outcome });
    } catch (error) {
      failed(error);
    } finally {
      this.#running.delete(name);
      this.#ended.add(name);
      if (!this.#isStopped) void this.#poll();
    }
  }

  async #attempt(delivery: DueDelivery, attempt: AbortController) {
    const { runtime, send } = this.#options;
    const timer = runtime.after(timeoutMs, () => attempt.abort(new Error('the receiver did not answer within 10 s')));
    let status: number | null = null;
    let error: string | null;
    try {
      status = await send(this.#toMessage(delivery), attempt.signal);
      if (status >= 200 && status < 300) {
        return { state: 'delivered', nextAtMs: runtime.now(), status, error: null } as const;
      }
      error = `the receiver answered ${status}`;
    } catch (thrown) {
      if (this.#isStopped) return undefined;
      error = (thrown instanceof Error ? thrown.message : String(thrown)).slice(0, errorLengthMax);
    } finally {
      timer.cancel();
    }
    const nextAtMs = runtime.now() + (delaysMs[delivery.attempts] ?? delaysMs.at(-1) ?? 0);
    const state = nextAtMs > delivery.untilMs ? 'failed' : 'pending';
    return { state, nextAtMs, status, error } as const;
  }

  #toMessage(delivery: DueDelivery): WebhookMessage {
    const { box, runtime } = this.#options;
    const { type, createdAtMs, data, url } = delivery;
    const body = `{"type":${JSON.stringify(type)},"timestamp":"${isoTime(createdAtMs)}","data":${data}}`;
    const content = { id: toEventId(delivery.eventId), nowMs: runtime.now(), body };
    return { url, body, headers: signWebhook(openSecret(box, delivery), content) };
  }
}
