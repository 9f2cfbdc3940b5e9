/** Idempotency-Key on the image paths: one drawing, one charge, the same answer. */
import { afterAll, describe, expect, test } from 'vitest';
import { readBalance, endGateway, heldBy, startGateway } from '../gateway.ts';
import { startGateway as startShared } from '../hosted-gateway.ts';
import { getTask, type ImageBody, type ImageReply, leftHalfMask, postImages, type TaskBody } from './image-caller.ts';
import { makePng } from './sample-image.ts';

let gateway = await startGateway({ config: 'retries: 0\n' });
afterAll(() => endGateway(gateway));

const small = { model: 'sim/image', prompt: 'x', size: '64x64' };
const price = 20_000_000n;
let keys = 0;
const newKey = (): string => `images-${(keys += 1)}`;
const generate = <Body = ImageBody>(
  idempotencyKey: string,
  body: object,
  more: { readonly signal?: AbortSignal } = {},
): Promise<ImageReply<Body>> =>
  postImages<Body>(
    gateway,
    'generations',
    { ...small, ...body },
    { headers: { 'idempotency-key': idempotencyKey }, ...more },
  );

describe('a repeat', () => {
  test.each([{ response_format: 'url' }, { response_format: 'b64_json', n: 2 }])(
    'gets the same answer as the first request, and costs nothing: %j',
    async body => {
      const key = newKey();
      const first = await generate(key, body);
      const before = await readBalance(gateway);
      const again = await generate(key, body);
      expect(again.body).toEqual(first.body);
      expect([again.status, again.headers.get('idempotent-replayed')]).toEqual([200, 'true']);
      for (const name of ['x-request-id', 'x-tollgate-cost']) {
        expect(again.headers.get(name)).toBe(first.headers.get(name));
      }
      expect(await readBalance(gateway)).toBe(before);
    },
  );

  test('is also answered after a restart', async () => {
    const key = newKey();
    const first = await generate(key, { n: 2 });
    await gateway.kill();
    gateway = await startGateway({ config: 'retries: 0\n', home: gateway.home });
    const again = await generate(key, { n: 2 });
    const names = (answer: ImageReply<ImageBody>): string[] =>
      answer.body.data.map(({ url }) => new URL(url ?? '').pathname);
    expect(names(again)).toEqual(names(first));
    expect((await fetch(again.body.data[0]?.url ?? '')).status).toBe(200);
  });

  test('with another body, or on another path, is refused', async () => {
    const key = newKey();
    await generate(key, {});
    const other = await generate(key, { prompt: 'y' });
    expect([other.status, other.body.error.code]).toEqual([422, 'idempotency_key_reused']);
    const images = [(await makePng(20, 20, '#123')).toString('base64')];
    const elsewhere = await postImages(
      gateway,
      'edits',
      { prompt: 'x', images },
      { headers: { 'idempotency-key': key } },
    );
    expect(elsewhere.status).toBe(422);
  });

  test('while the first request still runs is refused with the time to retry', async () => {
    const key = newKey();
    const body = { prompt: '!sim delay_ms=1500\nx' };
    const running = generate(key, body);
    await expect.poll(() => heldBy(gateway)).toBe(price);
    const early = await generate(key, body);
    expect([early.status, early.body.error.code, early.headers.get('retry-after')]).toEqual([
      409,
      'idempotency_in_progress',
      '1',
    ]);
    expect((await running).status).toBe(200);
    expect((await generate(key, body)).headers.get('idempotent-replayed')).toBe('true');
  });

  test('gets the image of a request whose client disconnected: it was drawn to the end, and charged once', async () => {
    const key = newKey();
    const before = await readBalance(gateway);
    const body = { prompt: '!sim delay_ms=1000\nx' };
    const leave = new AbortController();
    const left = generate(key, body, { signal: leave.signal });
    left.catch(() => undefined);
    await expect.poll(() => heldBy(gateway)).toBe(price);
    leave.abort();
    await expect(left).rejects.toThrow();
    await expect.poll(() => heldBy(gateway), { timeout: 15_000 }).toBe(0n);
    const found = await generate(key, body);
    expect([found.status, found.headers.get('idempotent-replayed')]).toEqual([200, 'true']);
    expect(before - (await readBalance(gateway))).toBe(price);
  });

  test('after an error is a new request', async () => {
    const key = newKey();
    expect((await generate(key, { prompt: '!sim status=500' })).status).toBe(502);
    expect((await generate(key, { prompt: 'x' })).status).toBe(200);
  });
});

test('sent many times at once is drawn once', async () => {
  const key = newKey();
  const before = await readBalance(gateway);
  const answers = await Promise.all(Array.from({ length: 10 }, () => generate(key, {})));
  const good = answers.filter(({ status }) => status === 200);
  expect(good.length).toBeGreaterThanOrEqual(1);
  expect(new Set(good.map(({ body }) => JSON.stringify(body))).size).toBe(1);
  expect(answers.every(({ status }) => status === 200 || status === 409)).toBe(true);
  expect(before - (await readBalance(gateway))).toBe(price);
});

test('of a form has the same fields and files; the boundary may differ', async () => {
  const blue = await makePng(30, 30, '#2040c0');
  const makeForm = async (prompt: string, mask?: Buffer): Promise<FormData> => {
    const form = new FormData();
    form.set('image', new Blob([new Uint8Array(blue)]), 'a.png');
    form.set('prompt', prompt);
    if (mask !== undefined) form.set('mask', new Blob([new Uint8Array(mask)]), 'm.png');
    return form;
  };
  const headers = { 'idempotency-key': newKey() };
  const first = await postImages(gateway, 'edits', await makeForm('x'), { headers });
  const again = await postImages(gateway, 'edits', await makeForm('x'), { headers });
  expect([first.status, again.body, again.headers.get('idempotent-replayed')]).toEqual([200, first.body, 'true']);
  const masked = await postImages(gateway, 'edits', await makeForm('x', await leftHalfMask(30, 30)), { headers });
  const worded = await postImages(gateway, 'edits', await makeForm('y'), { headers });
  expect([masked.body.error.code, worded.body.error.code]).toEqual([
    'idempotency_key_reused',
    'idempotency_key_reused',
  ]);
});

test('of a task gets the id of the same task, even after a restart', async () => {
  const key = newKey();
  const before = await readBalance(gateway);
  const body = { async: true, prompt: '!sim delay_ms=700\nx' };
  const first = await generate<TaskBody>(key, body);
  const again = await generate<TaskBody>(key, body);
  expect([first.status, again.status, again.headers.get('idempotent-replayed')]).toEqual([202, 202, 'true']);
  expect(again.body).toEqual(first.body);
  expect(again.headers.get('x-request-id')).toBe(first.headers.get('x-request-id'));
  await gateway.kill();
  gateway = await startShared({ config: 'retries: 0\n', home: gateway.home });
  expect((await generate<TaskBody>(key, body)).body).toEqual(first.body);
  await expect
    .poll(async () => (await getTask(gateway, first.body.task_id)).body.status, { timeout: 20_000 })
    .toBe('completed');
  expect(before - (await readBalance(gateway))).toBe(price);
});
