import { setImmediate as nextTurn, setTimeout as wait } from 'node:timers/promises';
import { expect, test } from 'vitest';
import type { BatchFacts, Call } from '../../src/lib/threads/call-queue.ts';
import { CallThread } from '../../src/lib/threads/call-thread.ts';
import { isLater, type EchoCall } from './echo-calls.ts';

/** Starts a thread that replies to odd numbers later. `onBatch`: see `CallPolicy`. */
async function startEcho(onBatch?: (batch: BatchFacts) => void) {
  const thread = new CallThread<Call<EchoCall>, number>(new URL('echo-thread.ts', import.meta.url), {
    onReply: (call, reply) => call.resolve(reply),
    repliesLater: ({ request }) => isLater(request),
    ...(onBatch === undefined ? {} : { onBatch }),
    onEnd: (lost, cause) => {
      for (const { reject } of lost) reject(cause);
    },
  });
  await thread.start(undefined);
  return thread;
}

/** Posts a call. Resolves with its reply. */
function call(thread: Awaited<ReturnType<typeof startEcho>>, number: number): Promise<unknown> {
  return new Promise((resolve, reject) => {
    thread.post({ request: { number }, resolve, reject });
  });
}

test('each of 5,000 calls gets its own reply, at once or later, whatever calls it is posted with', async () => {
  const thread = await startEcho();
  const replies: Promise<unknown>[] = [];
  const numbers: number[] = [];
  let number = 0;
  while (replies.length < 5000) {
    // A message often has calls of one kind only.
    const kinds = Math.random();
    for (let left = Math.floor(Math.random() * 4); left >= 0; left -= 1) {
      number += kinds < 0.6 ? 2 : 1;
      numbers.push(number);
      replies.push(call(thread, number));
    }
    if (kinds < 0.3) number += 1;
    await (Math.random() < 0.3 ? wait(1) : nextTurn());
  }
  expect(await Promise.all(replies)).toEqual(numbers);
  await thread.end();
});

test('the time of each message is measured once, also if all its calls get their replies later', async () => {
  const times: (number | undefined)[] = [];
  const thread = await startEcho(({ tookMs }) => times.push(tookMs));
  await call(thread, 2);
  expect(times.splice(0)).toEqual([expect.any(Number)]);
  await call(thread, 1);
  expect(times.splice(0)).toEqual([expect.any(Number)]);
  await Promise.all([call(thread, 2), call(thread, 3)]);
  expect(times.splice(0)).toEqual([expect.any(Number), undefined]);
  // The message with 7 is sent once the one before is announced, and gets its reply last.
  await Promise.all([call(thread, 4), call(thread, 5), nextTurn().then(() => call(thread, 7))]);
  expect(times.filter(each => each !== undefined)).toHaveLength(2);
  await thread.end();
});
