import { type HoldExtension, type RequestAttempt, writeTimeline } from '../ledger/timeline.ts';
import { withEntry } from '../lib/short-list.ts';
import type { Runtime } from '../lib/runtime.ts';
import type { RouteReason } from '../telemetry/request-telemetry.ts';
import type { AttemptOutcome, RouteName } from './routing/observer.ts';

/** Collects the timeline of one request, to be stored with its charge. Created when the request is admitted. */
export class TimelineRecord {
  readonly #runtime: Pick<Runtime, 'monotonicMs'>;
  readonly #startedAtMs: number;
  #attempts: readonly RequestAttempt[] = [];
  readonly #extensions: HoldExtension[] = [];
  #began: Pick<RequestAttempt, 'provider' | 'model' | 'reason' | 'startedMs'> | undefined;

  constructor(runtime: Pick<Runtime, 'monotonicMs'>) {
    this.#runtime = runtime;
    this.#startedAtMs = runtime.monotonicMs();
  }

  /** Called when an attempt is sent to a route. */
  attemptBegan({ provider, model }: RouteName, reason: RouteReason | undefined): void {
    this.#began = { provider, model, reason: reason ?? '', startedMs: this.#elapsedMs() };
  }

  /** Called when the attempt has ended. */
  attemptEnded({ result, status, firstEventMs, durationMs }: AttemptOutcome): void {
    if (this.#began === undefined) return;
    const { provider, model, reason, startedMs } = this.#began;
    const attempt = { provider, model, reason, startedMs, firstEventMs, durationMs, result, status };
    this.#attempts = withEntry(this.#attempts, attempt);
    this.#began = undefined;
  }

  /** Called when the hold has grown. `heldNanoUsd`: the new total. */
  extended(heldNanoUsd: bigint): void {
    this.#extensions.push({ atMs: this.#elapsedMs(), heldNanoUsd });
  }

  /** Returns the timeline as text for the ledger; undefined if it adds nothing to the other fields of the record. */
  get text(): string | undefined {
    return writeTimeline({ attempts: this.#attempts, extensions: this.#extensions });
  }

  #elapsedMs(): number {
    return this.#runtime.monotonicMs() - this.#startedAtMs;
  }
}
