/** A process crashes at any step of an image task: the next process finishes the task, charges it once and leaves no files behind. */
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
import { uncounted } from '../../src/store/documents.ts';
import { largeMemory } from '../large-memory.ts';

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
// Otherwise they would poll for tasks after their stores are closed.
afterEach(() => {
  for (const images of processes.splice(0)) void images.drain();
});

/** Opens the image service on the shared stores, as a process that ends when `crashing` does. */
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
    memory: largeMemory(),
    ledger: crashing.watch(ledger, ['admit', 'settle', 'void', 'findActivity']),
    documents: crashing.watch(documents, ['put', 'update', 'find', 'chunks', 'unfinished']),
    files: crashing.watch(files, ['put', 'delete']),
    router: crashing.watch(router, ['perform']),
    catalog: new Catalog({ models, aliases: new Map() }, () => true),
    runtime,
    ids: new IdSource(fixture.clock, ledger.lastId),
    replays: new Replays({ documents, memory: largeMemory(), ledger, runtime }),
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

/** Reads a task's stored state. This is not a call of the process. */
async function readState(id: string): Promise<string | undefined> {
  return (await documents.find({ kind: 'image_task', id }, uncounted))?.state;
}

/** Waits up to 10 s until the task has completed. */
async function completed(id: string): Promise<void> {
  for (const deadline = performance.now() + 10_000; (await readState(id)) !== 'completed'; await sleep(5)) {
    if (performance.now() > deadline) throw new Error(`the task is ${await readState(id)}`);
  }
}

/** Creates a task in a process that may crash meanwhile. Returns the task's id; undefined if the caller never got it. */
async function createIn(crashing: CrashingProcess): Promise<string | undefined> {
  const { createTask, files } = processOn(crashing);
  const made = await Promise.race([createTask(), crashing.died]);
  const id = made?.task?.id;
  if (id !== undefined) await Promise.race([completed(id), crashing.died]);
  // A call that takes effect may still be running.
  await files.close();
  return id;
}

/** A run without a crash, whose calls are counted. */
const whole = withoutCrash();
await createIn(whole);
const moments = Array.from({ length: whole.calls }, (_, index) => [
  { call: index + 1, completesLastCall: false },
  { call: index + 1, completesLastCall: true },
]).flat();

test('a task makes at least nine calls at which a process can crash', () => {
  expect(whole.calls).toBeGreaterThanOrEqual(9);
});

describe('a process that crashes', () => {
  test.each(moments)('at call $call, which takes effect: $completesLastCall', async ({ call, completesLastCall }) => {
    const [before, filesBefore] = [await balance(), filesNow()];
    const returned = await createIn(new CrashingProcess(call, completesLastCall));
    // The next process releases the holds of the crashed one.
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
    // Files of the crashed process to which nothing refers are swept after an hour.
    expect(filesNow() - filesBefore).toBeLessThanOrEqual(4);
    fixture.clock.step(3_600_001);
    await next.files.sweep();
    expect(filesNow()).toBe(0);
    await next.files.close();
  });
});
