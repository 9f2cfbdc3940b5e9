import { isoTime } from '../../lib/clock.ts';
import type { Runtime } from '../../lib/runtime.ts';
import type { SealedBox } from '../../lib/sealed-box.ts';
import type { DueDelivery, Outbox } from '../../ledger/webhooks.ts';
import type { WebhookMessage } from '../../upstreams/webhook-sender.ts';
import { signWebhook } from './signature.ts';
import { openSecret, toEventId } from './webhook-fields.ts';

/** How events reach webhooks. */
export interface DeliveryOptions {
  readonly outbox: Pick<Outbox, 'hasWebhooks' | 'listDueDeliveries' | 'reportDelivery' | 'remindOfExpiry'>;
  readonly box: SealedBox;
  readonly runtime: Runtime;
  /** Posts a message and returns the status of the answer. */
  readonly send: (message: WebhookMessage, signal: AbortSignal) => Promise<number>;
  /** Told of what keeps the loop from working. */
  readonly failed: (error: unknown) => void;
}

/** How often the outbox is looked at. */
const lookMs = 1_000;
/** How often keys are looked at that expire soon. */
const remindMs = 30_000;
const timeoutMs = 10_000;
/** Attempts that run at once. */
const runningMax = 20;
const seconds = 1_000;
const minutes = 60 * seconds;
const hours = 60 * minutes;
/** From the end of a failed attempt to the next one; the last of them again and again. */
const delaysMs = [4 * seconds, 25 * seconds, 2 * minutes, 10 * minutes, 30 * minutes, hours, 3 * hours, 6 * hours];
const errorLengthMax = 300;

/**
 * Delivers events: at least once each, those of one scope in their order, again and again for three days. Where there are no webhooks it looks at nothing until it is
 * woken.
 */
export class Deliveries {
  readonly #options: DeliveryOptions;
  /** Webhook and scope of what runs: the next of it waits. */
  readonly #running = new Map<string, AbortController>();
  /** What ended while the outbox was read: the list that comes still has it. */
  readonly #ended = new Set<string>();
  #timer: ReturnType<Runtime['after']> | undefined;
  #isStopped = false;
  #isLooking = false;
  #remindedMs = Number.NEGATIVE_INFINITY;

  constructor(options: DeliveryOptions) {
    this.#options = options;
  }

  /** Whether anybody may be told of anything. */
  get isNeeded(): boolean {
    return this.#timer !== undefined;
  }

  /** Begins if there are webhooks; called again when one was made. */
  async start(): Promise<void> {
    try {
      if (this.#timer === undefined && !this.#isStopped && (await this.#options.outbox.hasWebhooks())) this.#schedule();
    } catch (error) {
      this.#options.failed(error);
      this.#schedule();
    }
  }

  /** Ends; attempts that run are cut, and repeated after the next start. */
  stop(): void {
    this.#isStopped = true;
    this.#timer?.cancel();
    for (const attempt of this.#running.values()) attempt.abort();
  }

  #schedule(): void {
    if (this.#isStopped) return;
    this.#timer?.cancel();
    this.#timer = this.#options.runtime.after(lookMs, () => void this.#look());
  }

  async #look(): Promise<void> {
    if (this.#isLooking) return;
    this.#isLooking = true;
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
      this.#isLooking = false;
      this.#schedule();
    }
  }

  async #deliver(delivery: DueDelivery, name: string): Promise<void> {
    const { outbox, failed } = this.#options;
    const attempt = new AbortController();
    this.#running.set(name, attempt);
    try {
      const outcome = await this.#attempt(delivery, attempt);
      // What was cut by the end of the process was not delivered, and did not fail.
      if (outcome === undefined) return;
      const { webhookId, eventId, attempts } = delivery;
      await outbox.reportDelivery({ webhookId, eventId, attempts: attempts + 1, ...outcome });
    } catch (error) {
      failed(error);
    } finally {
      this.#running.delete(name);
      this.#ended.add(name);
      if (!this.#isStopped) void this.#look();
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
