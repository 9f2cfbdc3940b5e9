import { setTimeout as sleep } from 'node:timers/promises';
import { Connection } from './connection.ts';

/** A port, and the requests that are sent to it in turn (one for each key). */
export interface Traffic {
  readonly port: number;
  readonly requests: readonly Buffer[];
}

/** The measurements under a load. */
export interface LoadResult {
  /** Answers with status 200. */
  readonly answers: number;
  /** Other answers and broken connections, counted by reason. */
  readonly failures: ReadonlyMap<string, number>;
  /** Time from the first request to the end of the last answer. */
  readonly seconds: number;
  /** Times to the first byte of each answer, ascending. */
  readonly firstMs: readonly number[];
  /** Times to the end of each answer, ascending. */
  readonly endMs: readonly number[];
}

/** Counts answers and failures. */
class Tally {
  answers = 0;
  readonly failures = new Map<string, number>();

  /** Number of answers that have ended, failed ones included. */
  ended = 0;

  answered(status: number): void {
    this.ended += 1;
    if (status === 200) this.answers += 1;
    else this.failed(`status ${status}`);
  }

  failed(reason: string, count = 1): void {
    this.failures.set(reason, (this.failures.get(reason) ?? 0) + count);
  }
}

function requestFor({ requests }: Traffic, number: number): Buffer {
  const request = requests[number % requests.length];
  if (request === undefined) throw new Error('no requests');
  return request;
}

/**
 * Sends requests over all connections, each as soon as the one before was answered, until `seconds` have passed or `answers` have been requested. Requests that still run then are waited for and
 * counted like all others, so that CPU time that is read afterwards belongs to the counted answers.
 */
export async function closedLoop(
  traffic: Traffic,
  { connections, seconds, answers = Infinity }: { connections: number; seconds: number; answers?: number },
): Promise<LoadResult> {
  const tally = new Tally();
  const stop: (() => void)[] = [];
  let sent = 0;
  let isOver = false;
  const open = await openAll(traffic, connections, ({ message }, index) => {
    if (isOver) return;
    tally.ended += 1;
    tally.failed(message);
    stop[index]?.();
  });
  const began = performance.now();
  const until = began + seconds * 1000;
  const ends = open.map(
    (connection, index) =>
      new Promise<void>(resolve => {
        stop[index] = resolve;
        const next = (): void => {
          if (performance.now() >= until || sent >= answers) {
            resolve();
            return;
          }
          sent += 1;
          connection.send(requestFor(traffic, index), ({ status }) => {
            tally.answered(status);
            next();
          });
        };
        next();
      }),
  );
  await Promise.race([Promise.all(ends), sleep(seconds * 1000 + 10_000, undefined, { ref: false })]);
  isOver = true;
  if (tally.ended < sent) tally.failed('no answer in time', sent - tally.ended);
  const elapsed = (performance.now() - began) / 1000;
  for (const connection of open) connection.close();
  return { answers: tally.answers, failures: tally.failures, seconds: elapsed, firstMs: [], endMs: [] };
}

/**
 * Sends requests at a fixed rate, whether earlier ones were answered or not. Each is timed from the millisecond in which it was due, so that a stall
 * counts for every request that it delays. The generator sleeps in between, because it shares its core with the upstream. Connections are opened in advance; if all are busy, another one is opened, up to `connectionsMax`.
 */
export async function openLoop(
  traffic: Traffic,
  { rate, seconds, connectionsMax = 2000 }: { rate: number; seconds: number; connectionsMax?: number },
): Promise<LoadResult> {
  const tally = new Tally();
  const state = { sent: 0, opened: 64 };
  const broken = ({ message }: Error): void => tally.failed(message);
  const all = await openAll(traffic, state.opened, broken);
  const free = [...all];
  const waiting: number[] = [];
  const firstMs: number[] = [];
  const endMs: number[] = [];
  const total = Math.round(rate * seconds);
  const serve = (connection: Connection): void => {
    const due = waiting.shift();
    if (due === undefined) {
      free.push(connection);
      return;
    }
    connection.send(requestFor(traffic, state.sent++), ({ status, firstAt, endAt }) => {
      tally.answered(status);
      firstMs.push(firstAt - due);
      endMs.push(endAt - due);
      serve(connection);
    });
  };
  const began = performance.now();
  for (let due = 0; due < total;) {
    const now = performance.now();
    for (; due < total && began + (due * 1000) / rate <= now; due += 1) {
      waiting.push(now);
      const connection = free.pop();
      if (connection !== undefined) serve(connection);
      else if (state.opened < connectionsMax) {
        state.opened += 1;
        void Connection.open(traffic.port, broken).then(added => {
          all.push(added);
          serve(added);
        }, broken);
      }
    }
    await sleep(1);
  }
  const elapsed = (performance.now() - began) / 1000;
  for (let waited = 0; tally.ended < total && waited < 10_000; waited += 10) await sleep(10);
  for (const connection of all) connection.close();
  if (tally.ended < total) tally.failed('no answer', total - tally.ended);
  const { answers, failures } = tally;
  return { answers, failures, seconds: elapsed, firstMs: ascending(firstMs), endMs: ascending(endMs) };
}

/** Opens many connections, some at a time. `onBroken` is called with the index of the one that broke. */
export async function openAll(
  traffic: Traffic,
  count: number,
  onBroken: (reason: Error, index: number) => void,
): Promise<Connection[]> {
  const open: Connection[] = [];
  while (open.length < count) {
    const indexes = Array.from({ length: Math.min(100, count - open.length) }, (_, step) => open.length + step);
    const added = indexes.map(index => Connection.open(traffic.port, reason => onBroken(reason, index)));
    open.push(...(await Promise.all(added)));
  }
  return open;
}

function ascending(values: number[]): number[] {
  return values.sort((a, b) => a - b);
}
