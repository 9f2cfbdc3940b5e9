import { monitorEventLoopDelay } from 'node:perf_hooks';
import { getHeapSpaceStatistics, getHeapStatistics } from 'node:v8';
import { GatewayError } from '../errors/gateway-error.ts';
import type { Runtime, Timer } from '../lib/runtime.ts';

/** The load at which a level begins. */
export interface LoadLimits {
  /** The event loop is this late. */
  readonly lagMs: number;
  /** The level begins when this share of the heap that V8 may use is in use. */
  readonly heapShare: number;
}

/** How loaded the process is; each level refuses more than the one before. */
export type LoadLevel = 'calm' | 'busy' | 'overloaded' | 'critical';

/** From the least to the most. */
const levels: readonly LoadLevel[] = ['calm', 'busy', 'overloaded', 'critical'];
/** The levels at which the gateway is not ready. */
export const unreadyLevels: ReadonlySet<LoadLevel> = new Set<LoadLevel>(['overloaded', 'critical']);
/** Interval at which the load is measured. */
const lookMs = 500;
/** The delay, as a multiple of the limit, at which a level begins. */
const lagFactors = { overloaded: 2, critical: 5 } as const;
/** The share of the remaining heap beyond the limit from which a level applies. */
const heapSteps = { overloaded: 1 / 3, critical: 2 / 3 } as const;
/** The event loop's delay is measured with timers of this many ms, which are part of the measure. */
const resolutionMs = 10;
const retryAfterMs = 2000;
/** No account is refused for its share below this many running requests. */
const shareLeast = 4;

/** A measured load. */
export interface Load {
  /** The delay of the event loop: nine of ten timers were at most this late. */
  readonly lagMs: number;
  /** Memory of old objects, as a share of V8's maximum for them: the process ends when it is full. */
  readonly heapShare: number;
}

/** The maximum of young objects, which `heap_size_limit` includes beside that of old ones (`--max-old-space-size`); older versions have less. */
const youngBytesMax = 96 * 1024 ** 2;

/** Returns the present `heapShare`. */
export function measureHeapShare(): number {
  const spaces = getHeapSpaceStatistics().filter(({ space_name: name }) => !name.startsWith('new_'));
  const usedBytes = spaces.reduce((sum, { space_used_size: bytes }) => sum + bytes, 0);
  return usedBytes / (getHeapStatistics().heap_size_limit - youngBytesMax);
}

/** Returns the level of a load. */
export function measureLevel(load: Load, { lagMs, heapShare }: LoadLimits): LoadLevel {
  const reaches = (level: 'overloaded' | 'critical'): boolean =>
    load.lagMs >= lagMs * lagFactors[level] || load.heapShare >= heapShare + (1 - heapShare) * heapSteps[level];
  if (reaches('critical')) return 'critical';
  if (reaches('overloaded')) return 'overloaded';
  return load.lagMs >= lagMs || load.heapShare >= heapShare ? 'busy' : 'calm';
}

/**
 * Watches the delay of the event loop and the use of the heap, and refuses requests before either becomes harmful, the cheapest first.
 * `busy`: callers without a known key, and accounts that run more than twice their share. `overloaded`: accounts over their share; the
 * gateway is not ready. `critical`: every request that generates.
 */
export class LoadWatch {
  readonly #limits: () => LoadLimits;
  readonly #timer: Timer;
  readonly #delay: ReturnType<typeof monitorEventLoopDelay>;
  readonly #running = new Map<bigint, number>();
  #total = 0;
  #level: LoadLevel = 'calm';
  /** The level by the last measurement alone. */
  #seen: LoadLevel = 'calm';
  #isHeapFull = false;
  #wasHeapFull = false;

  constructor(limits: () => LoadLimits, runtime: Runtime) {
    this.#limits = limits;
    this.#delay = monitorEventLoopDelay({ resolution: resolutionMs });
    this.#delay.enable();
    this.#timer = runtime.after(lookMs, () => this.#look());
  }

  get level(): LoadLevel {
    return this.#level;
  }

  /** The heap alone makes the level `overloaded` or worse: memory must be freed. */
  get isHeapFull(): boolean {
    return this.#isHeapFull && this.#wasHeapFull;
  }

  /** Stops measuring. */
  close(): void {
    this.#timer.cancel();
    this.#delay.disable();
  }

  /** A request of an account begins to run. */
  begin(accountId: bigint): void {
    this.#total += 1;
    this.#running.set(accountId, (this.#running.get(accountId) ?? 0) + 1);
  }

  /** A request of an account has ended. */
  end(accountId: bigint): void {
    this.#total -= 1;
    const left = (this.#running.get(accountId) ?? 1) - 1;
    if (left === 0) this.#running.delete(accountId);
    else this.#running.set(accountId, left);
  }

  /** Returns the refusal of a caller whose key is not known yet; undefined if there is time to look it up. */
  refusesStranger(): GatewayError | undefined {
    return this.#level === 'calm' ? undefined : overloaded('The gateway is overloaded and did not look up this key.');
  }

  /** Returns the refusal of another request of an account; undefined if it may run. */
  refuses(accountId: bigint): GatewayError | undefined {
    if (this.#level === 'calm') return undefined;
    if (this.#level === 'critical') return overloaded('The gateway is overloaded.');
    const own = this.#running.get(accountId) ?? 0;
    const accounts = this.#running.size + (own === 0 ? 1 : 0);
    const share = Math.max(shareLeast, this.#total / accounts) * (this.#level === 'busy' ? 2 : 1);
    return own > share
      ? overloaded('The gateway is overloaded, and this account runs more than its share of requests.')
      : undefined;
  }

  #look(): void {
    const lagMs = Math.max(0, this.#delay.percentile(90) / 1e6 - resolutionMs);
    this.#delay.reset();
    const heapShare = measureHeapShare();
    const seen = measureLevel({ lagMs, heapShare }, this.#limits());
    this.#wasHeapFull = this.#isHeapFull;
    this.#isHeapFull = unreadyLevels.has(measureLevel({ lagMs: 0, heapShare }, this.#limits()));
    // The lower of two measurements: a peak of less than a second refuses no one.
    this.#level = levels.indexOf(seen) < levels.indexOf(this.#seen) ? seen : this.#seen;
    this.#seen = seen;
    this.#timer.restart(lookMs);
  }
}

function overloaded(message: string): GatewayError {
  return new GatewayError('overloaded', message, { retryAfterMs });
}
