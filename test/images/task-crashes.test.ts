/** A process that dies at any step of an image task: the next one finishes the task, charges it once and keeps no more files than were written. */
import { createHash } from 'node:crypto';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { create } from '@bufbuild/protobuf';
import { afterAll, afterEach, describe, expect, test } from 'vitest';
import { Catalog } from '../../src/core/catalog/catalog.ts';
import { Replays } from '../../src/core/idempotency/replays.ts';
import { Images } from '../../src/core/images/images.ts';
import { Router } from '../../src/core/routing/router.ts';
import { ModelSchema } from '../../src/gen/tollgate/v1/catalog_pb.ts';
import { ImageForm, ImageService, type ImageTask, ImageTaskStatus } from '../../src/gen/tollgate/v1/image_pb.ts';
import { Endpoint } from '../../src/gen/tollgate/v1/request_pb.ts';
import { IdSource } from '../../src/lib/ids.ts';
import { type Runtime, systemRuntime } from '../../src/lib/runtime.ts';
import { InProcessTransport } from '../../src/rpc/in-process.ts';
import { leanClient } from '../../src/rpc/lean-client.ts';
import { createImageSimulator } from '../../src/simulator/images/image-simulator.ts';
import { simulatorImageModels } from '../../src/simulator/models.ts';
import { openDiskFiles } from '../../src/store/disk/disk-files.ts';
import { openSqliteDocuments } from '../../src/store/sqlite/documents/sqlite-documents.ts';
import { openFixture } from '../ledger/fixture.ts';
import { CrashingProcess } from './crashing-process.ts';

const fixture = await openFixture({ balance: 1_000_000_000_000n });
const key = `sk-tg-${'a'.repeat(43)}`;
await fixture.ledger.createKey({
  accountId: 1,
  hash: createHash('sha256').update(key).digest(),
  masked: 'sk-tg-aaaa…aaaa',
  settings: {},
});
const folder = join(fixture.dataDir, 'images');
const openDocuments = () =>
  openSqliteDocuments({ dataDir: fixture.dataDir, clock: fixture.clock, bytesMax: 100_000_000 });
const documents = await openDocuments();
afterAll(async () => {
  await documents.close();
  await fixture.end();
});

const runtime: Runtime = { ...systemRuntime, now: () => fixture.clock.now() };

const processes: Images[] = [];
// Otherwise they would look for tasks after their stores are closed.
afterEach(() => {
  for (const images of processes.splice(0)) void images.drain();
});

/** A process on the stores, which lives until `crashing` dies. */
function processOn(crashing: CrashingProcess) {
  const { ledger } = fixture;
  const files = openDiskFiles({
    folder,
    clock: fixture.clock,
    lifetimeMs: 3_600_000,
    bytesMax: 100_000_000,
    onFailure: error => {
      throw error;
    },
  });
  const models = simulatorImageModels.map(model => create(ModelSchema, model));
  const router = new Router({
    config: {
      providers: [{ name: 'simulator', images: createImageSimulator({ steering: true }) }],
      routes: new Map(models.map(({ id }) => [id, [{ provider: 'simulator', model: id, priority: 1, weight: 1 }]])),
    },
    clock: fixture.clock,
  });
  const images = new Images({
    ledger: crashing.watch(ledger, ['admit', 'settle', 'void', 'findActivity']),
    documents: crashing.watch(documents, ['put', 'update', 'find', 'chunks', 'unfinished']),
    files: crashing.watch(files, ['put', 'delete']),
    router: crashing.watch(router, ['perform']),
    catalog: new Catalog({ models, aliases: new Map() }, () => true),
    runtime,
    ids: new IdSource(fixture.clock, ledger.lastId),
    replays: new Replays({ documents, ledger, runtime }),
    exposeRoute: () => false,
    publicUrl: () => 'http://gateway',
    tasks: { slots: 1, waitersMax: 10 },
    onDefect: (_, error) => {
      throw error;
    },
  });
  processes.push(images);
  const client = leanClient(ImageService, new InProcessTransport().service(ImageService, images.service));
  const options = { headers: new Headers({ authorization: `Bearer ${key}` }) };
  return {
    images,
    files,
    createTask: () =>
      client.createTask(
        {
          endpoint: Endpoint.IMAGE_GENERATIONS,
          request: { model: 'sim/image', prompt: 'x', size: '16x16', n: 2, form: ImageForm.URL },
        },
        options,
      ),
    async findTask(taskId: string): Promise<ImageTask | undefined> {
      for await (const { content } of client.getTask({ taskId }, options)) {
        if (content.case === 'task') return content.value;
      }
      return undefined;
    },
  };
}

const withoutCrash = (): CrashingProcess => new CrashingProcess(Infinity, false);
const price = 20_000_000n;
const balance = async (): Promise<bigint> => (await fixture.ledger.findAccount(1))?.balance ?? 0n;
const held = async (): Promise<bigint> => (await fixture.ledger.findAccount(1))?.held ?? 0n;
const filesNow = (): number => readdirSync(folder).length;

/** A task's state as it is stored: reading it is not a call of the process. */
async function readState(id: string): Promise<string | undefined> {
  return (await documents.find({ kind: 'image_task', id }))?.state;
}

/** Waits up to 10 s. */
async function completed(id: string): Promise<void> {
  for (const deadline = performance.now() + 10_000; (await readState(id)) !== 'completed'; await sleep(5)) {
    if (performance.now() > deadline) throw new Error(`the task is ${await readState(id)}`);
  }
}

/** Creates a task in a process that may die meanwhile. Returns the task's id; undefined if the caller never got it. */
async function createIn(crashing: CrashingProcess): Promise<string | undefined> {
  const { createTask, files } = processOn(crashing);
  const made = await Promise.race([createTask(), crashing.died]);
  const id = made?.task?.id;
  if (id !== undefined) await Promise.race([completed(id), crashing.died]);
  // A call that is to have an effect may still be running.
  await files.close();
  return id;
}

/** How many calls a task makes in a process that does not die. */
const whole = withoutCrash();
await createIn(whole);
const moments = Array.from({ length: whole.calls }, (_, index) => [
  { call: index + 1, completesLastCall: false },
  { call: index + 1, completesLastCall: true },
]).flat();

test('a task takes at least nine steps at which a process can die', () => {
  expect(whole.calls).toBeGreaterThanOrEqual(9);
});

describe('a process that dies', () => {
  test.each(moments)('at call $call, done: $completesLastCall', async ({ call, completesLastCall }) => {
    const [before, filesBefore] = [await balance(), filesNow()];
    const returned = await createIn(new CrashingProcess(call, completesLastCall));
    // The next process releases the holds of the dead one.
    await fixture.reopen();
    const left = await documents.unfinished('image_task');
    const next = processOn(withoutCrash());
    await next.images.resume();
    const known = returned ?? left[0]?.id;
    if (known !== undefined) {
      await completed(known);
      expect((await next.findTask(known))?.status).toBe(ImageTaskStatus.COMPLETED);
    }
    expect(before - (await balance())).toBe(known === undefined ? 0n : 2n * price);
    expect(await held()).toBe(0n);
    expect(await documents.unfinished('image_task')).toEqual([]);
    // Files of the dead process are swept after an hour; nothing refers to them.
    expect(filesNow() - filesBefore).toBeLessThanOrEqual(4);
    fixture.clock.step(3_600_001);
    await next.files.sweep();
    expect(filesNow()).toBe(0);
    await next.files.close();
  });
});
