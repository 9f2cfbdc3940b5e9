import { connect } from 'node:net';
import { join, resolve } from 'node:path';
import { text } from 'node:stream/consumers';
import type { Profiler } from 'node:inspector';
import { type Traffic, closedLoop } from './load.ts';

const preload = resolve(import.meta.dirname, '../servers/meter.ts');

/** The counts of `servers/meter.ts`. */
interface Count {
  readonly promises: number;
  readonly bytes: number;
}

/** The meter in a gateway that was started with `environment`. */
export class Meter {
  readonly #path: string;

  /** `folder`: where its socket is made; the path may have at most 90 characters. */
  constructor(folder: string) {
    this.#path = join(folder, 'meter');
  }

  /** The environment variables that load the meter into a process. */
  get environment(): Readonly<Record<string, string>> {
    return { NODE_OPTIONS: `--import=${preload}`, BENCH_METER: this.#path };
  }

  /** Sends requests that are not streamed, and returns the promises and allocated bytes per answer, of the main thread. Throws if a request fails. */
  async measure(traffic: Traffic, { warmUp, counted }: { warmUp: number; counted: number }): Promise<Count> {
    const send = async (count: number): Promise<number> => {
      const { answers, failures } = await closedLoop(traffic, { connections: 16, seconds: 60, answers: count });
      if (failures.size > 0) throw new Error(`failures: ${[...failures.keys()].join(', ')}`);
      return answers;
    };
    await send(warmUp);
    const before = await this.#ask<Count>('count');
    const answers = await send(counted);
    const after = await this.#ask<Count>('count');
    return { promises: (after.promises - before.promises) / answers, bytes: (after.bytes - before.bytes) / answers };
  }

  /** Profiles the main thread while `work` runs. */
  async profile(work: () => Promise<void>): Promise<Profiler.Profile> {
    await this.#ask('profile');
    await work();
    return this.#ask<Profiler.Profile>('profile');
  }

  async #ask<T>(question: 'count' | 'profile'): Promise<T> {
    const socket = connect(this.#path);
    socket.write(question);
    return JSON.parse(await text(socket)) as T;
  }
}
