import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { systemClock } from '../../src/lib/clock.ts';
import { type Documents, uncounted } from '../../src/store/documents.ts';
import { openSqliteDocuments } from '../../src/store/sqlite/documents/sqlite-documents.ts';
import { temporaryDirectory } from '../ledger/fixture.ts';
import { toText } from './fixture.ts';

const child = join(import.meta.dirname, 'documents-child.ts');
const kills = 5;
const named = (id: string) => ({ kind: 'response' as const, id });

test(`${kills} kills lose nothing that was acknowledged, and leave nothing half done`, async () => {
  const directory = temporaryDirectory();
  const said = new Map<string, Set<string>>();
  for (let kill = 0; kill < kills; kill++) {
    for (const [word, id] of await runAndKill(directory.path, kill)) {
      said.set(id, (said.get(id) ?? new Set()).add(word));
    }
    const documents = await openSqliteDocuments({
      dataDir: directory.path,
      clock: systemClock,
      bytesMax: 1_000_000_000,
    });
    const unfinished = new Set((await documents.unfinished('response')).map(({ id }) => id));
    for (const [id, words] of said) await seeThatItHolds(documents, { id, words, unfinished: unfinished.has(id) });
    await documents.close();
  }
  expect(said.size).toBeGreaterThan(kills);
  directory.remove();
});

async function seeThatItHolds(
  documents: Documents,
  { id, words, unfinished }: { id: string; words: ReadonlySet<string>; unfinished: boolean },
): Promise<void> {
  const found = await documents.find(named(id), uncounted);
  if (words.has('deleted')) return expect(found).toBeUndefined();
  // A deletion that was not acknowledged may have been done.
  if (found === undefined) return expect(id).toMatch(/-\d*[49]$/);
  if (words.has('done')) expect(found.state).toBe('done');
  expect(toText(found.body)).toBe(found.finished ? `done ${id}` : `begun ${id}`);
  expect(unfinished).toBe(!found.finished);
  const log = (await documents.chunks(named(id), { after: -1, limit: 10 }, uncounted)).map(({ content }) =>
    toText(content),
  );
  if (words.has('logged') || log.length > 0) expect(log).toEqual([`chunk ${id}`]);
  const turn = Number(id.split('-').at(-1));
  expect(await documents.chain(named(id), 1, uncounted)).toHaveLength((turn % 5) + 1);
}

/** Starts a process with the load, kills it with SIGKILL some time after it is ready, and returns its output. */
async function runAndKill(dataDir: string, kill: number): Promise<[word: string, id: string][]> {
  const file = join(dataDir, `said-${kill}.txt`);
  const load = spawn(process.execPath, [child, dataDir, file, `run${kill}`], { stdio: 'inherit' });
  const lines = (): string[] => (existsSync(file) ? readFileSync(file, 'utf8').split('\n').slice(0, -1) : []);
  while (lines().length < 40 + kill * 37 && load.exitCode === null) await wait(5);
  load.kill('SIGKILL');
  await once(load, 'close');
  return lines()
    .filter(line => line.includes(' '))
    .map(line => [line.split(' ')[0] ?? '', line.split(' ')[1] ?? '']);
}
