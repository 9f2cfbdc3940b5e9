import { monitorEventLoopDelay } from 'node:perf_hooks';
import { getHeapSpaceStatistics, getHeapStatistics } from 'node:v8';
import { GatewayError } from '../errors/gateway-error.ts';
import type { Runtime, Timer } from '../lib/runtime.ts';

/** The load at which the level `busy` begins; the others begin at multiples. */
export interface LoadLimits {
  /** The delay of the event loop, in milliseconds. */
  readonly lagMs: number;
  /** The used share of the heap that V8 may use, 0 to 1. */
  readonly heapShare: number;
}

/** How loaded the process is. Each level refuses more requests than the one before. */
export type LoadLevel = 'calm' | 'busy' | 'overloaded' | 'critical';

/** The levels, from the lowest. */
const levels: readonly LoadLevel[] = ['calm', 'busy', 'overloaded', 'critical'];
/** The levels at which the gateway is not ready. */
export const unreadyLevels: ReadonlySet<LoadLevel> = new Set<LoadLevel>(['overloaded', 'critical']);
/** The interval at which the load is measured. */
const lookMs = 500;
/** The delay, as a multiple of the limit, at which a level begins. */
const lagFactors = { overloaded: 2, critical: 5 } as const;
/** The share of the remaining heap beyond the limit from which a level applies. */
const heapSteps = { overloaded: 1 / 3, critical: 2 / 3 } as const;
/** The delay of the event loop is measured with timers of this many milliseconds, which are included in the measured value. */
const resolutionMs = 10;
const retryAfterMs = 2000;
/** An account with fewer running requests than this is not refused for exceeding its share. */
const shareLeast = 4;

/** A measured load. */
export interface Load {
  /** The delay of the event loop in milliseconds: the 90th percentile of how late timers ran. */
  readonly lagMs: number;
  /** The used share of V8's old generation; when it is full, the process ends. */
  readonly heapShare: number;
}

/** The maximum of V8's young generation. `heap_size_limit` is the sum of this and the maximum of the old generation (`--max-old-space-size`); in older versions it is smaller. */
const youngBytesMax = 96 * 1024 ** 2;

/** Returns the current `heapShare`. */
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
 * Measures the delay of the event loop and the use of the heap, and decides which requests are refused before either becomes harmful.
 * `busy`: callers whose key is not in memory, and accounts that run more than twice their share. `overloaded`: also accounts that run more
 * than their share; the gateway is not ready. `critical`: every request that generates.
 */
export class LoadWatch {
  readonly #limits: () => LoadLimits;
  readonly #timer: Timer;
  readonly #delay: ReturnType<typeof monitorEventLoopDelay>;
  readonly #running = new Map<bigint, number>();
  #total = 0;
  #level: LoadLevel = 'calm';
  /** The level of the last measurement alone. */
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

  /** True if the heap alone makes the level `overloaded` or higher, so that memory must be freed. */
  get isHeapFull(): boolean {
    return this.#isHeapFull && this.#wasHeapFull;
  }

  /** Stops measuring. */
  close(): void {
    this.#timer.cancel();
    this.#delay.disable();
  }

  /** Counts a request of an account that begins to run. */
  begin(accountId: bigint): void {
    this.#total += 1;
    this.#running.set(accountId, (this.#running.get(accountId) ?? 0) + 1);
  }

  /** Counts a request of an account that has ended. */
  end(accountId: bigint): void {
    this.#total -= 1;
    const left = (this.#running.get(accountId) ?? 1) - 1;
    if (left === 0) this.#running.delete(accountId);
    else this.#running.set(accountId, left);
  }

  /** Returns the error for a caller whose key is not in memory; undefined if the key may be looked up. */
  refusesStranger(): GatewayError | undefined {
    return this.#level === 'calm' ? undefined : overloaded('The gateway is overloaded and did not look up this key.');
  }

  /** Returns the error for another request of an account; undefined if it may run. */
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
    // The lower level of the last two measurements, so that a peak of less than a second refuses nobody.
    this.#level = levels.indexOf(seen) < levels.indexOf(this.#seen) ? seen : this.#seen;
    this.#seen = seen;
    this.#timer.restart(lookMs);
  }
}

function overloaded(message: string): GatewayError {
  return new GatewayError('overloaded', message, { retryAfterMs });
}
