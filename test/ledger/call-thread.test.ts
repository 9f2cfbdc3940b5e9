import { setImmediate as nextTurn, setTimeout as wait } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { type Call, CallThread } from '../../src/lib/threads/call-thread.ts';
import { isLater, type EchoCall } from './echo-calls.ts';

test('each of 5,000 calls gets its own reply, at once or later, whatever calls it is posted with', async () => {
  const thread = new CallThread<Call<EchoCall>, number>(new URL('echo-thread.ts', import.meta.url), {
    onReply: (call, reply) => call.resolve(reply),
    repliesLater: ({ request }) => isLater(request),
    onEnd: (lost, cause) => {
      for (const { reject } of lost) reject(cause);
    },
  });
  await thread.start(undefined);
  const replies: Promise<unknown>[] = [];
  const numbers: number[] = [];
  let number = 0;
  while (replies.length < 5000) {
    // A message often has calls of one kind only.
    const kinds = Math.random();
    for (let left = Math.floor(Math.random() * 4); left >= 0; left -= 1) {
      number += kinds < 0.6 ? 2 : 1;
      const request = { number };
      numbers.push(number);
      const { promise, resolve, reject } = Promise.withResolvers<unknown>();
      replies.push(promise);
      thread.post({ request, resolve, reject });
    }
    if (kinds < 0.3) number += 1;
    await (Math.random() < 0.3 ? wait(1) : nextTurn());
  }
  expect(await Promise.all(replies)).toEqual(numbers);
  await thread.end();
});
