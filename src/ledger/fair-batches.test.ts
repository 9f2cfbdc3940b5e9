import fc from 'fast-check';
import { expect, test } from 'vitest';
import { FairBatches } from './fair-batches.ts';
import type { WireCommand } from './sqlite/wire.ts';

interface Command {
  readonly request: WireCommand;
  readonly name: string;
}

// The casts are safe: of an admission or a settle only its kind and account are read.
function admit(accountId: number, name = `${accountId}`): Command {
  return { name, request: ['admit', 0, 0, '', 0, accountId] as unknown as WireCommand };
}
function settle(name: string): Command {
  return { name, request: ['settle', 0, 0] as unknown as WireCommand };
}

function many(count: number, accountId: number): Command[] {
  return Array.from({ length: count }, (_, at) => admit(accountId, `${accountId}.${at}`));
}

const namesOf = (commands: readonly Command[]): string[] => commands.map(({ name }) => name);

test('an account that sends many requests at once has only a few of them in the batch of another account’s request', () => {
  const batches = new FairBatches<Command>(8, () => 0);
  const queue = [...many(40, 1), settle('s'), admit(2), ...many(1, 3)];
  expect(namesOf(batches.take(queue, 4096))).toEqual([...namesOf(many(8, 1)), 's', '2', '3.0']);
  expect(namesOf(batches.take(queue, 4096))).toEqual(namesOf(many(40, 1).slice(8, 16)));
});

test('the longer an account’s queue, the more of it a batch takes', () => {
  const batches = new FairBatches<Command>(8, () => 0);
  const queue = [...many(800, 1), admit(2)];
  expect(batches.take(queue, 4096)).toHaveLength(101);
});

test('an account that is alone fills whole batches, also a second after others have stopped', () => {
  let nowMs = 0;
  const batches = new FairBatches<Command>(8, () => nowMs);
  expect(batches.take(many(100, 1), 4096)).toHaveLength(100);
  expect(batches.take([...many(100, 1), admit(2)], 4096)).toHaveLength(14);
  nowMs = 999;
  expect(batches.take(many(100, 2), 4096)).toHaveLength(13);
  nowMs = 1000;
  expect(batches.take(many(100, 2), 4096)).toHaveLength(100);
});

test('every command is taken once, those of an account in their order, and all others before later admissions', () => {
  const command = fc.oneof(fc.record({ account: fc.integer({ min: 1, max: 3 }) }), fc.constant({ account: undefined }));
  const chunk = fc.array(command, { maxLength: 60 });
  fc.assert(
    fc.property(fc.array(chunk, { maxLength: 4 }), fc.integer({ min: 1, max: 50 }), (chunks, max) => {
      const batches = new FairBatches<Command>(8, () => 0);
      const queue: Command[] = [];
      const taken: Command[] = [];
      const sent: Command[] = [];
      const take = (): void => {
        const waiting = queue.filter(({ request }) => request[0] === 'settle').length;
        const batch = batches.take(queue, max);
        expect(batch.length).toBeLessThanOrEqual(max);
        expect(batch.length > 0 || queue.length === 0).toBe(true);
        if (batch.length < max) expect(batch.filter(({ request }) => request[0] === 'settle')).toHaveLength(waiting);
        taken.push(...batch);
      };
      for (const added of chunks) {
        const commands = added.map(({ account }, at) =>
          account === undefined ? settle(`s${sent.length + at}`) : admit(account, `${sent.length + at}`),
        );
        queue.push(...commands);
        sent.push(...commands);
        take();
      }
      while (queue.length > 0) take();
      for (const account of [1, 2, 3, undefined]) {
        const own = (commands: readonly Command[]): string[] =>
          namesOf(commands.filter(({ request }) => (request as unknown[])[5] === account));
        expect(own(taken)).toEqual(own(sent));
      }
    }),
  );
});
