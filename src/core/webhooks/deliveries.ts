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
  /** True if other gateways use the same ledger, and may create webhooks in it. */
  readonly isShared: boolean;
  /** Sends a message. Returns the HTTP status of the response. */
  readonly send: (message: WebhookMessage, signal: AbortSignal) => Promise<number>;
  /** Called with each error of the delivery loop, which then continues. */
  readonly failed: (error: unknown) => void;
}

/** How often the outbox is polled while there are webhooks. */
const pollMs = 1_000;
/** How often a gateway without webhooks checks whether another gateway has created one. */
const checkMs = 5_000;
/** How often keys that expire soon are searched for, and whether there still are webhooks. */
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
 * Delivers events to webhooks: each at least once, retried for three days, and to each webhook in order among the events of one scope (such as a key, a group or an account).
 * While there are no webhooks, the outbox is not read; if the ledger is shared, every gateway keeps checking for webhooks, because another one may create the first, and only one of them delivers.
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
  /** Whether there are webhooks, as far as this gateway knows. */
  #hasWebhooks = false;
  /** How many webhooks this gateway has created. */
  #created = 0;
  #remindedMs = Number.NEGATIVE_INFINITY;

  constructor(options: DeliveryOptions) {
    this.#options = options;
  }

  /** Starts the loop. */
  async start(): Promise<void> {
    try {
      await this.#check();
    } catch (error) {
      this.#options.failed(error);
      this.#hasWebhooks = true;
    }
    this.#schedule();
  }

  /** Must be called after this gateway has created a webhook, so that its events are delivered at once. */
  webhookCreated(): void {
    this.#created += 1;
    if (this.#hasWebhooks) return;
    this.#hasWebhooks = true;
    this.#schedule();
  }

  /** Stops the loop. Running attempts are aborted; the next process repeats them. */
  stop(): void {
    this.#isStopped = true;
    this.#timer?.cancel();
    for (const attempt of this.#running.values()) attempt.abort();
  }

  /** Reads whether there are webhooks. */
  async #check(): Promise<void> {
    const created = this.#created;
    const hasWebhooks = await this.#options.outbox.hasWebhooks();
    // The reply may be older than a webhook that was created meanwhile.
    this.#hasWebhooks = hasWebhooks || this.#created > created;
  }

  #schedule(): void {
    this.#timer?.cancel();
    const { runtime, isShared } = this.#options;
    if (this.#isStopped || !(this.#hasWebhooks || isShared)) return;
    this.#timer = runtime.after(this.#hasWebhooks ? pollMs : checkMs, () => void this.#poll());
  }

  async #poll(): Promise<void> {
    if (this.#isPolling) return;
    this.#isPolling = true;
    const { outbox, runtime, failed } = this.#options;
    try {
      const isReminderDue = runtime.monotonicMs() - this.#remindedMs >= remindMs;
      if (isReminderDue || !this.#hasWebhooks) await this.#check();
      if (!this.#hasWebhooks) return;
      if (isReminderDue) {
        this.#remindedMs = runtime.monotonicMs();
        await outbox.remindOfExpiry();
      }
      await this.#startDue();
    } catch (error) {
      failed(error);
    } finally {
      this.#isPolling = false;
      this.#schedule();
    }
  }

  /** Starts the deliveries that are due. */
  async #startDue(): Promise<void> {
    this.#ended.clear();
    const due = await this.#options.outbox.listDueDeliveries(runningMax * 2);
    for (const delivery of due) {
      if (this.#isStopped || this.#running.size >= runningMax) break;
      const name = `${delivery.webhookId} ${delivery.eventId}`;
      if (!this.#running.has(name) && !this.#ended.has(name)) void this.#deliver(delivery, name);
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
