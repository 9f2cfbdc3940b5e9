import { expect, test } from 'vitest';
import type { RunningAttempt, UpstreamReceiver } from '../generation/upstream.ts';
import { WritingAttempt } from './writing-attempt.ts';

/** Returns an attempt whose body the test completes, and a record of what happened. */
function makeAttempt() {
  const seen: string[] = [];
  const { promise, resolve, reject } = Promise.withResolvers<Buffer>();
  const note = (what: string) => (): void => void seen.push(what);
  const start = (body: Buffer): RunningAttempt => {
    seen.push(`start ${body}`);
    return { cancel: note('cancel'), pause: note('pause'), resume: note('resume') };
  };
  const receiver = { end: (failure?: Error) => void seen.push(`end ${failure?.message}`) } as UpstreamReceiver;
  const attempt = new WritingAttempt(promise, start, receiver);
  const settle = async (): Promise<void> => {
    await promise.catch(() => undefined);
    await new Promise(setImmediate);
  };
  return { attempt, seen, resolve, reject, settle };
}

test('the attempt starts when its body has been written, and can be controlled from then on', async () => {
  const { attempt, seen, resolve, settle } = makeAttempt();
  expect(seen).toEqual([]);
  resolve(Buffer.from('body'));
  await settle();
  attempt.pause();
  attempt.resume();
  attempt.cancel();
  expect(seen).toEqual(['start body', 'pause', 'resume', 'cancel']);
});

test('an attempt that is paused while its body is written starts paused; one that is resumed again does not', async () => {
  const [paused, resumed] = [makeAttempt(), makeAttempt()];
  paused.attempt.pause();
  resumed.attempt.pause();
  resumed.attempt.resume();
  for (const { resolve, settle } of [paused, resumed]) {
    resolve(Buffer.from('body'));
    await settle();
  }
  expect([paused.seen, resumed.seen]).toEqual([['start body', 'pause'], ['start body']]);
});

test('an attempt that is cancelled while its body is written is never sent, and reports nothing', async () => {
  const [written, failed] = [makeAttempt(), makeAttempt()];
  written.attempt.cancel();
  failed.attempt.cancel();
  written.resolve(Buffer.from('body'));
  failed.reject(new Error('too deep'));
  await written.settle();
  await failed.settle();
  expect([written.seen, failed.seen]).toEqual([[], []]);
});

test('a body that can’t be written is the failure of the attempt', async () => {
  const { seen, reject, settle } = makeAttempt();
  reject(new Error('too deep'));
  await settle();
  expect(seen).toEqual(['end too deep']);
});
