import { expect, test } from 'vitest';
import { StorageLost } from '../../lib/sqlite/storage-lost.ts';
import type { PostReplies } from '../../lib/threads/serve-calls.ts';
import { Commits } from './commits.ts';
import type { WireCommand, WireReply } from './wire.ts';

const probe = (nowMs: number): WireCommand => ['probe', nowMs];
const windows = (nowMs: number): WireCommand => ['windows', nowMs, 1, false];
const done = (value: number): WireReply => ['done', value];

/** Records what `Commits` does. Commands are named by their time, and so is the reply to each. */
function record() {
  const events: string[] = [];
  let onSynced: ((error: Error | null) => void) | undefined;
  const commits = new Commits({
    commit: batch => {
      events.push(`commit ${batch.map(command => command[1]).join(' ')}`);
      return batch.map(command => done(command[1]));
    },
    onCommitted: () => undefined,
    sync: callback => {
      expect(onSynced).toBeUndefined();
      events.push('sync');
      onSynced = callback;
    },
  });
  const endSync = (error: Error | null = null): void => {
    const callback = onSynced;
    onSynced = undefined;
    callback?.(error);
  };
  const postAs = (sender: string): PostReplies<WireReply> => {
    return (kind, replies) => {
      // The cast holds: there are no notices here, and the value of each reply is a number.
      const values = (replies as (['done', number] | undefined)[]).map(reply => reply?.[1] ?? 'announced');
      events.push(`${sender}${kind} ${values.join(' ')}`);
    };
  };
  const post = postAs('');
  const run = (...batch: WireCommand[]): void => commits.run(batch, post, true);
  return { events, run, endSync, commits, postAs };
}

test('a batch that needs no sync is committed, and its replies are posted at once', () => {
  const { events, run } = record();
  run(windows(1), windows(2));
  expect(events).toEqual(['commit 1 2', 'now 1 2']);
});

test('commands that need a sync are not announced if no other command came with them', () => {
  const { events, run, endSync } = record();
  run(probe(1), probe(2));
  endSync();
  expect(events).toEqual(['commit 1 2', 'sync', 'later 1 2']);
});

test('commands that arrive during a sync and need one are committed together when it ends', () => {
  const { events, run, endSync } = record();
  run(probe(1));
  run(probe(2));
  run(probe(3), probe(4));
  expect(events).toEqual(['commit 1', 'sync']);
  endSync();
  endSync();
  expect(events).toEqual(['commit 1', 'sync', 'later 1', 'commit 2 3 4', 'sync', 'later 2 3 4']);
});

test('a command that needs no sync takes the waiting ones along, and the next sync covers all of them', () => {
  const { events, run, endSync } = record();
  run(probe(1));
  run(probe(2));
  run(windows(3), probe(4));
  run(probe(5));
  endSync();
  endSync();
  expect(events).toEqual([
    'commit 1',
    'sync',
    'commit 2 3 4',
    'now 3 announced',
    'later 1',
    'commit 5',
    'sync',
    'later 2 4 5',
  ]);
});

test('during a long sync commands are committed once 257 wait, in their order, and the next sync covers them', () => {
  const { events, run, endSync } = record();
  run(probe(0));
  for (let each = 1; each <= 256; each += 1) run(probe(each));
  expect(events).toHaveLength(2);
  run(probe(257));
  const all = Array.from({ length: 257 }, (_, index) => index + 1).join(' ');
  expect(events.slice(2)).toEqual([`commit ${all}`]);
  endSync();
  endSync();
  expect(events.slice(3)).toEqual(['later 0', 'sync', `later ${all}`]);
});

test('what several senders send at the same time is committed together, the owner’s commands last, and each gets its own replies', async () => {
  const { events, commits, postAs, endSync } = record();
  commits.share();
  const [owner, one, two] = [postAs('owner '), postAs('one '), postAs('two ')];
  commits.run([probe(1)], owner, true);
  commits.run([windows(2), probe(3)], one, false);
  commits.run([probe(4)], two, false);
  commits.run([probe(5)], one, false);
  expect(events).toEqual([]);
  await new Promise(resolve => {
    setImmediate(resolve);
  });
  commits.run([probe(6)], two, false);
  commits.run([probe(7)], owner, true);
  await new Promise(resolve => {
    setImmediate(resolve);
  });
  endSync();
  endSync();
  expect(events).toEqual([
    'commit 2 3 4 5 1',
    'one now 2 announced',
    'sync',
    'one later 3 5',
    'two later 4',
    'owner later 1',
    'commit 6 7',
    'sync',
    'two later 6',
    'owner later 7',
  ]);
});

test('a sync that fails ends the thread, and nothing is posted', () => {
  const { events, run, endSync } = record();
  run(probe(1));
  run(probe(2));
  expect(() => endSync(new Error('EIO'))).toThrow(StorageLost);
  expect(events).toEqual(['commit 1', 'sync']);
});
