/** Image tasks: what their client gets, and that no crash, stop or clock change loses a task or charges it twice. */
import { afterAll, describe, expect, test } from 'vitest';
import { RecordState } from '../../src/gen/tollgate/v1/account_pb.ts';
import { clockAhead } from '../fake-clock.ts';
import {
  createAccount,
  readBalance,
  endGateway,
  type Gateway,
  heldBy,
  makeKey,
  readRecord,
  startGateway,
} from '../gateway.ts';
import { startGateway as startShared } from '../hosted-gateway.ts';
import { listImages } from '../stored-content.ts';
import { fetchImageBytes, getTask, postImages, type TaskBody } from './image-caller.ts';
import { makePng } from './sample-image.ts';

const config = 'retries: 0\nshutdown_grace: 200ms\nlimits: { image_tasks: 2, image_task_queue: 3 }\n';
const small = { model: 'sim/image', size: '64x64', async: true };
const price = 20_000_000n;

async function create(gateway: Gateway, body: object = {}): Promise<TaskBody> {
  const { status, body: task } = await postImages<TaskBody>(gateway, 'generations', { ...small, prompt: 'x', ...body });
  expect(status).toBe(202);
  return task;
}

/** Waits up to 40 s until a task has ended, and returns it. */
async function ended(gateway: Gateway, taskId: string): Promise<TaskBody> {
  let last: TaskBody | undefined;
  await expect
    .poll(async () => (last = (await getTask(gateway, taskId)).body).status, { timeout: 40_000 })
    .toMatch(/^(completed|failed)$/);
  if (last === undefined) throw new Error('no task');
  return last;
}

const listFiles = ({ home }: Gateway): Promise<string[]> => listImages(home);
const toRecordId = ({ task_id: id }: TaskBody): string => id.replace('task_', 'req_');

describe('a task', () => {
  const started = startShared({ config });
  afterAll(async () => endGateway(await started));

  test('is queued with 202, then has its images and is charged once, and nothing stays held', async () => {
    const gateway = await started;
    const before = await readBalance(gateway);
    const { status, headers, body } = await postImages<TaskBody>(gateway, 'generations', {
      ...small,
      prompt: 'hills',
      n: 2,
    });
    expect(status).toBe(202);
    expect(body).toEqual({
      task_id: expect.stringMatching(/^task_[0-9A-Za-z]{21}$/),
      object: 'image.task',
      status: 'queued',
      created: expect.any(Number),
      model: 'sim/image',
    });
    const task = await ended(gateway, body.task_id);
    expect(task).toMatchObject({ ...body, status: 'completed', error: null });
    expect(task.result?.data).toHaveLength(2);
    for (const entry of task.result?.data ?? []) expect((await fetchImageBytes(entry)).length).toBeGreaterThan(100);
    expect(before - (await readBalance(gateway))).toBe(2n * price);
    const record = await readRecord(gateway, headers.get('x-request-id') ?? '');
    expect([record.costNanoUsd, record.state]).toEqual([2n * price, RecordState.COMPLETED]);
    expect(await heldBy(gateway)).toBe(0n);
  });

  test('generates the same image as a request without a task, and returns it as `b64_json` if that was requested', async () => {
    const gateway = await started;
    const requested = { prompt: 'hills', seed: 5, response_format: 'b64_json' };
    const task = await ended(gateway, (await create(gateway, requested)).task_id);
    const atOnce = await postImages(gateway, 'generations', { ...small, ...requested, async: false });
    expect(task.result?.data).toEqual(atOnce.body.data);
  });

  test('can also edit', async () => {
    const gateway = await started;
    const images = [(await makePng(40, 30, '#a02020')).toString('base64')];
    const made = await postImages<TaskBody>(gateway, 'edits', { images, prompt: 'x', async: true });
    expect([made.status, made.body.model]).toEqual([202, 'sim/image-edit']);
    expect((await ended(gateway, made.body.task_id)).result?.data).toHaveLength(1);
  });

  test('that fails says why, and is free', async () => {
    const gateway = await started;
    const before = await readBalance(gateway);
    const [broken, refused] = await Promise.all(
      ['!sim status=500', '!sim status=422'].map(async prompt =>
        ended(gateway, (await create(gateway, { prompt })).task_id),
      ),
    );
    expect([broken?.status, broken?.result, broken?.error]).toMatchObject([
      'failed',
      null,
      { code: 'upstream_error', status_code: 502 },
    ]);
    const { message: _message, tip: _tip, id, docs, ...facts } = refused?.error ?? {};
    expect(facts).toEqual({
      type: 'invalid_request_error',
      param: null,
      code: 'upstream_rejected',
      status_code: 400,
      support: null,
      community: null,
    });
    expect([id, docs]).toEqual([expect.stringMatching(/^req_/), `${gateway.url}/docs/errors#upstream_rejected`]);
    expect(await readBalance(gateway)).toBe(before);
  });

  test('is refused at once if its request is wrong or can’t be paid', async () => {
    const gateway = await started;
    const { key } = await makeKey(gateway, { balanceNanoUsd: 10_000_000n });
    const wrong = await postImages(gateway, 'generations', { ...small, prompt: 'x', n: 0 });
    const poor = await postImages(gateway, 'generations', { ...small, prompt: 'x' }, { key });
    expect([wrong.status, poor.status, poor.body.error.code]).toEqual([422, 429, 'insufficient_balance']);
  });

  test('of another account, or with an unknown id, is not found', async () => {
    const gateway = await started;
    const { task_id: id } = await create(gateway);
    const { account } = await gateway.admin.createAccount({ name: 'other', balanceNanoUsd: 0n });
    const { key } = await gateway.admin.createApiKey({ accountId: account?.accountId ?? 0n });
    const sameAccount = await makeKey(gateway);
    expect((await getTask(gateway, id, key?.key)).status).toBe(404);
    expect((await getTask(gateway, id, sameAccount.key)).status).toBe(200);
    for (const wrong of ['task_x', 'x', `${id}0`, id.replace('task_', 'req_')]) {
      expect((await getTask(gateway, wrong)).status).toBe(404);
    }
  });

  test('runs without its client; two run at once, three wait, and more are refused', async () => {
    const gateway = await started;
    const body = { ...small, prompt: '!sim delay_ms=4000\nx' };
    const running = [await create(gateway, body), await create(gateway, body)];
    const answers = await Promise.all(
      Array.from({ length: 12 }, () => postImages<TaskBody>(gateway, 'generations', { ...small, prompt: 'x' })),
    );
    const waiting = answers.filter(({ status }) => status === 202).map(({ body: task }) => task);
    const refused = answers.filter(({ status }) => status !== 202);
    // Two run, and three may wait.
    expect([waiting.length, refused.length]).toEqual([3, 9]);
    expect(refused.map(({ status, headers }) => [status, headers.get('retry-after')])).toEqual(
      refused.map(() => [503, '10']),
    );
    const states = await Promise.all(
      [...running, ...waiting].map(async ({ task_id: id }) => (await ended(gateway, id)).status),
    );
    expect(states).toEqual(states.map(() => 'completed'));
  });
});

test('an account that fills the queue delays only itself: a tenth of it is for accounts without a waiting task, and tasks of two accounts begin in turn', async () => {
  const gateway = await startShared({ config: 'limits: { image_tasks: 1, image_task_queue: 10 }\n' });
  try {
    const key = await createAccount(gateway, '1');
    const prompt = '!sim delay_ms=400\nx';
    const busy: TaskBody[] = [];
    // One runs, nine wait.
    for (let number = 0; number < 10; number += 1) busy.push(await create(gateway, { prompt }));
    const refused = await postImages(gateway, 'generations', { ...small, prompt });
    expect(refused.status).toBe(503);
    const other = await postImages<TaskBody>(gateway, 'generations', { ...small, prompt }, { key });
    expect(other.status).toBe(202);
    const readCount = async (): Promise<number> => {
      const states = await Promise.all(busy.map(async ({ task_id: id }) => (await getTask(gateway, id)).body.status));
      return states.filter(state => state === 'completed').length;
    };
    const before = await readCount();
    await expect
      .poll(async () => (await getTask(gateway, other.body.task_id, key)).body.status, { interval: 20 })
      .toBe('completed');
    // The one that ran, the one whose turn was next, and one that may have ended since.
    expect((await readCount()) - before).toBeLessThanOrEqual(3);
    for (const { task_id: id } of busy) expect((await ended(gateway, id)).status).toBe('completed');
  } finally {
    await endGateway(gateway);
  }
});

describe('a gateway that is ended', () => {
  test('by kill −9 loses no task, charges each once, and keeps no file for longer than an hour', async () => {
    // There is room for all tasks that a slow machine has not drawn before the next kill.
    const roomy = config.replace('image_task_queue: 3', 'image_task_queue: 20');
    let gateway = await startGateway({ config: roomy });
    const before = await readBalance(gateway);
    // The kills are spread over all stages of a task.
    const tasks: string[] = [];
    for (let kill = 0; kill < 6; kill += 1) {
      for (let number = 0; number < 2; number += 1) {
        const prompt = number === 0 ? 'x' : `!sim delay_ms=${kill * 40}\nx`;
        tasks.push((await create(gateway, { prompt })).task_id);
      }
      await new Promise(resolve => {
        setTimeout(resolve, kill * 25);
      });
      await gateway.kill();
      gateway = await startGateway({ config: roomy, home: gateway.home });
    }
    try {
      for (const id of tasks) {
        const task = await ended(gateway, id);
        expect([task.status, task.error]).toEqual(['completed', null]);
        const [entry] = task.result?.data ?? [];
        expect((await fetch(entry?.url ?? '')).status).toBe(200);
        expect((await readRecord(gateway, toRecordId(task))).costNanoUsd).toBe(price);
      }
      expect(before - (await readBalance(gateway))).toBe(BigInt(tasks.length) * price);
      expect(await heldBy(gateway)).toBe(0n);
      // These include files of tasks that were drawn again.
      expect((await listFiles(gateway)).length).toBeGreaterThanOrEqual(tasks.length);
      await gateway.kill();
      gateway = await startGateway({ config: roomy, home: gateway.home, environment: clockAhead(61).environment });
      await expect.poll(() => listFiles(gateway)).toEqual([]);
    } finally {
      await endGateway(gateway);
    }
  });

  test('by SIGTERM interrupts running tasks and keeps waiting ones; the next process draws both, and each is charged once', async () => {
    const first = await startGateway({ config });
    const before = await readBalance(first);
    const prompts = ['!sim delay_ms=5000\nx', '!sim delay_ms=5000\nx', 'x'];
    const ids: string[] = [];
    for (const prompt of prompts) ids.push((await create(first, { prompt })).task_id);
    expect((await first.stop()).code).toBe(0);
    const second = await startShared({ config, home: first.home });
    try {
      expect((await getTask(second, ids[0] ?? '')).body.status).toMatch(/queued|in_progress/);
      const states = await Promise.all(ids.map(async id => (await ended(second, id)).status));
      expect(states).toEqual(['completed', 'completed', 'completed']);
      expect(before - (await readBalance(second))).toBe(3n * price);
    } finally {
      await endGateway(second);
    }
  });

  test('a task whose key was disabled before the restart fails with that error', async () => {
    const first = await startGateway({ config });
    const { key, id } = await makeKey(first);
    const made = await postImages<TaskBody>(
      first,
      'generations',
      { ...small, prompt: '!sim delay_ms=60000\nx' },
      { key },
    );
    await first.kill();
    const second = await startGateway({ config: 'simulator: { enabled: true }\n', home: first.home });
    try {
      await second.cli(['keys', 'disable', String(id)]);
      await second.kill();
      const third = await startShared({ config, home: first.home });
      try {
        const task = await ended(third, made.body.task_id);
        expect([task.status, task.error?.code]).toEqual(['failed', 'key_disabled']);
        expect(await heldBy(third)).toBe(0n);
      } finally {
        await endGateway(third);
      }
    } finally {
      await second.kill();
    }
  });
});

describe('a clock that moves between two starts', () => {
  test('deletes images that are older than an hour, with their files, but keeps the task for a day', async () => {
    const first = await startGateway({ config });
    const made = await create(first, { n: 2 });
    const url = (await ended(first, made.task_id)).result?.data[0]?.url ?? '';
    expect(await listFiles(first)).toHaveLength(2);
    await first.kill();

    const almost = await startGateway({ config, home: first.home, environment: clockAhead(50).environment });
    const path = new URL(url).pathname;
    expect((await fetch(`${almost.url}${path}`)).status).toBe(200);
    await almost.kill();

    const later = await startGateway({ config, home: first.home, environment: clockAhead(61).environment });
    expect((await fetch(`${later.url}${path}`)).status).toBe(404);
    await expect.poll(() => listFiles(later)).toEqual([]);
    expect((await getTask(later, made.task_id)).body.status).toBe('completed');
    await later.kill();

    const nextDay = await startGateway({ config, home: first.home, environment: clockAhead(25 * 60).environment });
    try {
      expect((await getTask(nextDay, made.task_id)).status).toBe(404);
    } finally {
      await endGateway(nextDay);
    }
  });
});
