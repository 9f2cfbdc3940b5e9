import { appendFileSync } from 'node:fs';
import { openSqliteDocuments } from '../../src/store/sqlite/documents/sqlite-documents.ts';
import { systemClock } from '../../src/lib/clock.ts';
import { toBytes, dayMs } from './fixture.ts';

/**
 * A process that stores the turns of conversations, their chunks and their ends, until it is killed. It reports each step once it was acknowledged. Arguments: the directory, the file for the report, and a prefix that no other run has.
 */
const [dataDir = '', file = '', run = ''] = process.argv.slice(2);
const documents = await openSqliteDocuments({ dataDir, clock: systemClock, bytesMax: 1_000_000_000 });
appendFileSync(file, 'opened\n');

async function converse(name: string): Promise<never> {
  let parentId: string | undefined;
  for (let turn = 0; ; turn++) {
    const id = `${run}-${name}-${turn}`;
    const createdAtMs = systemClock.now();
    await documents.put({
      kind: 'response',
      id,
      accountId: 1,
      state: 'running',
      finished: false,
      createdAtMs,
      endsAtMs: createdAtMs + dayMs,
      body: toBytes(`begun ${id}`),
      ...(parentId === undefined ? {} : { parentId }),
    });
    appendFileSync(file, `put ${id}\n`);
    await documents.update({ kind: 'response', id, chunks: [{ seq: 0, content: toBytes(`chunk ${id}`) }] });
    appendFileSync(file, `logged ${id}\n`);
    await documents.update({ kind: 'response', id, state: 'done', finished: true, body: toBytes(`done ${id}`) });
    appendFileSync(file, `done ${id}\n`);
    if (turn % 5 === 4) {
      await documents.delete({ kind: 'response', id });
      appendFileSync(file, `deleted ${id}\n`);
      parentId = undefined;
    } else parentId = id;
  }
}

await Promise.all(['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'].map(converse));
