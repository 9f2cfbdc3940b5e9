import { setImmediate as turn } from 'node:timers/promises';
import type { Dispatcher } from 'undici';
import { expect, test } from 'vitest';
import { AnswerInTurns } from './answer-in-turns.ts';

/** An answer whose handler spins for `pieceMs` with each piece, and lists what it was called with. */
function openAnswer(account: number, pieceMs = 0) {
  const log: string[] = [];
  const seen: string[] = [];
  const controller: Dispatcher.DispatchController = {
    aborted: false,
    paused: false,
    reason: null,
    abort: () => void log.push('abort'),
    pause: () => void log.push('pause'),
    resume: () => void log.push('resume'),
  };
  const answer = new AnswerInTurns(
    {
      onRequestStart: () => undefined,
      onResponseStart: () => undefined,
      onResponseData: (_, piece) => {
        for (const end = performance.now() + pieceMs; performance.now() < end;);
        seen.push(piece.toString());
        if (piece.includes('bad')) throw new Error('bad');
      },
      onResponseEnd: () => void seen.push('end'),
      onResponseError: (_, error) => void seen.push(error.message),
    },
    account,
  );
  answer.onRequestStart(controller, undefined);
  return { answer, controller, log, seen };
}

async function untilQuiet(isQuiet: () => boolean): Promise<void> {
  while (!isQuiet()) await turn();
}

const large = Buffer.alloc(65_536, 'x');

test('200 large answers of one account delay an answer of another by a few pieces, not by all of them', async () => {
  const many = Array.from({ length: 200 }, () => openAnswer(1, 1));
  const handled = (): number => many.reduce((sum, { seen }) => sum + seen.length, 0);
  for (const { answer, controller } of many) answer.onResponseData(controller, large);
  const other = openAnswer(2);
  other.answer.onResponseData(other.controller, Buffer.from('small'));
  await untilQuiet(() => other.seen.length > 0);
  expect(handled()).toBeLessThan(40);
  const before = handled();
  await turn();
  expect(handled() - before).toBeLessThanOrEqual(20);
  await untilQuiet(() => handled() === 1_600);
  expect(many.every(({ log }) => log.length === 0 || log.join() === 'pause,resume')).toBe(true);
});

test('the pieces of an answer keep their order, also with its end and its failure, and while they wait it is not read', async () => {
  const busy = openAnswer(1, 7);
  const [ending, failing] = [openAnswer(2), openAnswer(2)];
  busy.answer.onResponseData(busy.controller, large);
  for (const { answer, controller } of [ending, failing]) {
    answer.onResponseData(controller, Buffer.from('one'));
    answer.onResponseData(controller, Buffer.from('two'));
  }
  expect([ending.seen, ending.log.at(-1)]).toEqual([[], 'pause']);
  ending.answer.onResponseEnd(ending.controller, {});
  failing.answer.onResponseError(failing.controller, new Error('broken'));
  await untilQuiet(() => busy.seen.length === 8);
  expect([ending.seen, failing.seen]).toEqual([
    ['one', 'two', 'end'],
    ['one', 'two', 'broken'],
  ]);
  expect(ending.log.at(-1)).toBe('resume');
});

test('an answer that its receiver has paused is not read again when its pieces are handled', async () => {
  const busy = openAnswer(1, 7);
  const paused = openAnswer(2);
  busy.answer.onResponseData(busy.controller, large);
  paused.answer.onResponseData(paused.controller, Buffer.from('one'));
  paused.answer.pause();
  await untilQuiet(() => busy.seen.length === 8);
  expect([paused.seen, paused.log]).toEqual([['one'], ['pause', 'pause']]);
  paused.answer.resume();
  expect(paused.log.at(-1)).toBe('resume');
});

test('an error of a handler ends its answer, also in a later turn', async () => {
  const busy = openAnswer(1, 7);
  const failing = openAnswer(2);
  busy.answer.onResponseData(busy.controller, large);
  failing.answer.onResponseData(failing.controller, Buffer.from('bad'));
  await untilQuiet(() => busy.seen.length === 8);
  expect([failing.seen, failing.log]).toEqual([['bad', 'bad'], expect.arrayContaining(['abort'])]);
});

test('a handler that has aborted its answer gets no more of it', async () => {
  const { answer, controller, seen } = openAnswer(3);
  answer.onResponseData(controller, Buffer.from('one'));
  await untilQuiet(() => seen.length === 1);
  answer.abort(new Error('enough'));
  answer.onResponseData(controller, Buffer.from('two'));
  await turn();
  await turn();
  expect(seen).toEqual(['one']);
});
