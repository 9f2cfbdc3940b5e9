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
/** The most attempts for the webhooks of one account that run at once; the operator's webhooks have no such bound. */
const accountRunningMax = 4;
const seconds = 1_000;
const minutes = 60 * seconds;
const hours = 60 * minutes;
/** Delays between the end of a failed attempt and the next one. The last delay repeats. */
const delaysMs = [4 * seconds, 25 * seconds, 2 * minutes, 10 * minutes, 30 * minutes, hours, 3 * hours, 6 * hours];
/** How long after its rest a webhook is forgotten that has had no attempt since, for example because it was deleted. */
const forgetMs = 24 * hours;
const errorLengthMax = 300;

/** A running attempt. */
interface Attempt extends Pick<DueDelivery, 'webhookId' | 'accountId'> {
  readonly controller: AbortController;
  /** By the monotonic clock. */
  readonly startedAtMs: number;
}

/** A webhook whose last attempts failed. */
interface Rest {
  /** Until then nothing is sent to it, by the monotonic clock. After that, one attempt at a time is made until one succeeds. */
  readonly untilMs: number;
  readonly failures: number;
}

/**
 * Delivers events to webhooks: each at least once, retried for three days, and to each webhook in order among the events of one scope (such as a key, a group or an account). A webhook whose attempts fail rests as a whole; accounts take turns, after the operator.
 * While there are no webhooks, the outbox is not read; if the ledger is shared, every gateway keeps checking for webhooks, because another one may create the first, and only one of them delivers.
 */
export class Deliveries {
  readonly #options: DeliveryOptions;
  /** The running deliveries, by webhook id and event id. For each webhook the outbox lists only the oldest event of each scope, so later events of the scope wait. */
  readonly #running = new Map<string, Attempt>();
  /** The webhooks whose last attempt failed, by their ids. A new process forgets this, and begins with one round of attempts. */
  readonly #rests = new Map<number, Rest>();
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

  /** Ends the rest of a webhook. Must be called after its owner has changed it or asked for an event again: the receiver may have been repaired. */
  endRest(webhookId: number): void {
    this.#rests.delete(webhookId);
  }

  /** Stops the loop. Running attempts are aborted; the next process repeats them. */
  stop(): void {
    this.#isStopped = true;
    this.#timer?.cancel();
    for (const { controller } of this.#running.values()) controller.abort();
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
    const nowMs = this.#options.runtime.monotonicMs();
    const resting: number[] = [];
    for (const [webhookId, { untilMs }] of this.#rests) {
      if (untilMs > nowMs) resting.push(webhookId);
      else if (untilMs + forgetMs < nowMs) this.#rests.delete(webhookId);
    }
    const due = await this.#options.outbox.listDueDeliveries(runningMax * 2, resting);
    for (const delivery of due) {
      if (this.#isStopped || this.#running.size >= runningMax) break;
      const name = `${delivery.webhookId} ${delivery.eventId}`;
      if (this.#running.has(name) || this.#ended.has(name) || !this.#hasRoom(delivery)) continue;
      void this.#deliver(delivery, name);
    }
  }

  /** Returns whether an attempt for this webhook may begin now. */
  #hasRoom({ accountId, webhookId }: DueDelivery): boolean {
    const running = [...this.#running.values()];
    const rest = this.#rests.get(webhookId);
    if (rest !== undefined) {
      const isResting = rest.untilMs > this.#options.runtime.monotonicMs();
      if (isResting || running.some(each => each.webhookId === webhookId)) return false;
    }
    return accountId === 0 || running.filter(each => each.accountId === accountId).length < accountRunningMax;
  }

  /** Notes whether a webhook has answered an attempt. Attempts that began before its rest say nothing new. */
  #note({ webhookId, startedAtMs }: Attempt, isDelivered: boolean): void {
    const rest = this.#rests.get(webhookId);
    if (isDelivered) this.#rests.delete(webhookId);
    else if (rest === undefined || startedAtMs >= rest.untilMs) {
      const failures = (rest?.failures ?? 0) + 1;
      const untilMs = this.#options.runtime.monotonicMs() + delayMs(failures - 1);
      this.#rests.set(webhookId, { untilMs, failures });
    }
  }

  async #deliver(delivery: DueDelivery, name: string): Promise<void> {
    const { outbox, runtime, failed } = this.#options;
    const { webhookId, eventId, accountId, attempts } = delivery;
    const attempt = { webhookId, accountId, controller: new AbortController(), startedAtMs: runtime.monotonicMs() };
    this.#running.set(name, attempt);
    try {
      const outcome = await this.#attempt(delivery, attempt.controller);
      // An attempt that `stop` aborted has neither succeeded nor failed.
      if (outcome === undefined) return;
      this.#note(attempt, outcome.state === 'delivered');
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
    const nextAtMs = runtime.now() + delayMs(delivery.attempts);
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

/** Returns how long after that many earlier failures the next attempt is made. */
function delayMs(failures: number): number {
  return delaysMs[failures] ?? delaysMs.at(-1) ?? 0;
}
