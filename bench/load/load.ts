import { setTimeout as sleep } from 'node:timers/promises';
import { Connection } from './connection.ts';

/** Where a load goes: a port, and the requests that are sent to it in turn (one for each key). */
export interface Aim {
  readonly port: number;
  readonly requests: readonly Buffer[];
}

/** What a load found. Times in ms. */
export interface LoadResult {
  readonly answers: number;
  /** Answers whose status was not 200, and connections that broke. */
  readonly failures: number;
  readonly seconds: number;
  /** To the first byte of the answer, ascending. */
  readonly firstMs: readonly number[];
  /** To its end, ascending. */
  readonly endMs: readonly number[];
}

function requestOf({ requests }: Aim, number: number): Buffer {
  const request = requests[number % requests.length];
  if (request === undefined) throw new Error('no requests');
  return request;
}

/** Every connection sends its next request as soon as its last was answered. Measures how much can be done. */
export async function closedLoop(
  aim: Aim,
  { connections, seconds }: { connections: number; seconds: number },
): Promise<LoadResult> {
  const state = { answers: 0, failures: 0, running: true };
  const open = await openAll(aim, connections, () => {
    if (state.running) state.failures += 1;
  });
  const began = performance.now();
  const ends = open.map(
    (connection, index) =>
      new Promise<void>(resolve => {
        const next = (): void => {
          if (!state.running) {
            resolve();
            return;
          }
          connection.send(requestOf(aim, index), ({ status }) => {
            state.answers += 1;
            if (status !== 200) state.failures += 1;
            next();
          });
        };
        next();
      }),
  );
  await sleep(seconds * 1000);
  state.running = false;
  const elapsed = (performance.now() - began) / 1000;
  const { answers } = state;
  await Promise.race([Promise.all(ends), sleep(10_000, undefined, { ref: false })]);
  for (const connection of open) connection.close();
  return { answers, failures: state.failures, seconds: elapsed, firstMs: [], endMs: [] };
}

/**
 * Requests at fixed times, whether earlier ones were answered or not; each is timed from the millisecond in which it was due, so that a stall
 * is seen by all that it held up. The generator sleeps between, because the upstream shares its core. Connections are opened ahead; where all are busy one more is opened, up to `connectionsMax`.
 */
export async function openLoop(
  aim: Aim,
  { rate, seconds, connectionsMax = 2000 }: { rate: number; seconds: number; connectionsMax?: number },
): Promise<LoadResult> {
  const state = { answers: 0, failures: 0, sent: 0, opened: 64 };
  const broken = (): void => void (state.failures += 1);
  const all = await openAll(aim, state.opened, broken);
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
    connection.send(requestOf(aim, state.sent++), ({ status, firstAt, endAt }) => {
      state.answers += 1;
      if (status !== 200) state.failures += 1;
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
        void Connection.open(aim.port, broken).then(added => {
          all.push(added);
          serve(added);
        }, broken);
      }
    }
    await sleep(1);
  }
  const elapsed = (performance.now() - began) / 1000;
  for (let waited = 0; state.answers < total && waited < 10_000; waited += 10) await sleep(10);
  for (const connection of all) connection.close();
  const failures = state.failures + (total - state.answers);
  return { answers: state.answers, failures, seconds: elapsed, firstMs: ascending(firstMs), endMs: ascending(endMs) };
}

/** Opens many connections, some at a time. */
export async function openAll(aim: Aim, count: number, onBroken: () => void): Promise<Connection[]> {
  const open: Connection[] = [];
  while (open.length < count) {
    const step = Math.min(100, count - open.length);
    open.push(...(await Promise.all(Array.from({ length: step }, () => Connection.open(aim.port, onBroken)))));
  }
  return open;
}

function ascending(values: number[]): number[] {
  return values.sort((a, b) => a - b);
}
