import type { Client } from '@connectrpc/connect';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { AccountService, Payer, RecordState } from '../../src/gen/tollgate/v1/account_pb.ts';
import { KeyState } from '../../src/gen/tollgate/v1/admin_pb.ts';
import { UsageSource } from '../../src/gen/tollgate/v1/event_pb.ts';
import { publicRequestId } from '../../src/lib/ids.ts';
import { type ControlPlane, dollar, catchRefusal, startControlPlane } from './control-plane.ts';

let plane: ControlPlane;
let mine: Client<typeof AccountService>;
let others: Client<typeof AccountService>;

beforeAll(async () => {
  plane = await startControlPlane();
  const owner = async (name: string) => {
    const { account } = await plane.admin.createAccount({ name, balanceNanoUsd: 10n * dollar });
    const made = await plane.admin.createManagementKey({ accountId: account?.accountId ?? 0n, scopes: ['all'] });
    return plane.client(AccountService, made.key?.key ?? '');
  };
  mine = await owner('mine');
  others = await owner('other');
});
afterAll(() => plane.close());

const balance = async (client = mine) => (await client.getBalance({})).balanceNanoUsd;

test('a new key has the defaults; its secret is returned once, and afterwards only masked', async () => {
  const { key } = await mine.createKey({});
  expect(key).toMatchObject({
    accountId: 1n,
    label: '',
    dailyLimit: 0n,
    minuteLimit: 0n,
    usageTodayNanoUsd: 0n,
    usageMinute: 0n,
    useSubsFirst: true,
    fallbackToPayg: true,
    disabled: false,
    createdAtMs: BigInt(plane.clock.now()),
  });
  expect([key?.balanceNanoUsd, key?.allowedModels, key?.lastUsedAtMs, key?.monthlyLimitNanoUsd]).toEqual([
    undefined,
    undefined,
    undefined,
    undefined,
  ]);
  const text = key?.key ?? '';
  expect(text).toMatch(/^sk-tg-[0-9A-Za-z]{43}$/);
  const masked = `${text.slice(0, 10)}…${text.slice(-4)}`;
  const apiKeyId = key?.apiKeyId ?? 0n;
  expect((await mine.getKey({ apiKeyId })).key?.key).toBe(masked);
  expect((await mine.listKeys({})).keys.at(-1)?.key).toBe(masked);
  expect((await mine.updateKey({ apiKeyId, settings: { label: 'x' } })).key?.key).toBe(masked);
});

test('settings are kept, and an update changes only what it names', async () => {
  const settings = {
    label: 'build server',
    dailyLimit: 5n,
    minuteLimit: 60n,
    allowedModels: { models: ['large', 'acme/large:flex', 'acme/small:free'] },
    balanceNanoUsd: 2n * dollar,
    useSubsFirst: false,
    fallbackToPayg: false,
  };
  const before = await balance();
  const { key } = await mine.createKey({ settings });
  const stored = { ...settings, allowedModels: { models: ['acme/large', 'acme/small:free'] } };
  expect(key).toMatchObject(stored);
  expect(await balance()).toBe(before - 2n * dollar);
  const apiKeyId = key?.apiKeyId ?? 0n;
  const { key: renamed } = await mine.updateKey({ apiKeyId, settings: { label: 'other' } });
  expect(renamed).toMatchObject({ ...stored, label: 'other' });
  const { key: opened } = await mine.updateKey({
    apiKeyId,
    settings: { allowAllModels: true, noBalance: true, dailyLimit: 0n, useSubsFirst: true },
  });
  expect(opened).toMatchObject({ label: 'other', dailyLimit: 0n, minuteLimit: 60n, useSubsFirst: true });
  expect([opened?.allowedModels, opened?.balanceNanoUsd]).toEqual([undefined, undefined]);
  expect(await balance()).toBe(before);
  const { key: closed } = await mine.updateKey({ apiKeyId, settings: { allowedModels: { models: [] } } });
  expect(closed?.allowedModels?.models).toEqual([]);
});

test('money is moved from the account and back, but never more than there is', async () => {
  const before = await balance();
  const { key } = await mine.createKey({ settings: { balanceNanoUsd: 3n * dollar } });
  const apiKeyId = key?.apiKeyId ?? 0n;
  const move = (amount: bigint) => mine.updateKey({ apiKeyId, settings: { balanceNanoUsd: amount } });
  const { code, param, httpStatus } = await catchRefusal(move(before + 1n));
  expect([code, param, httpStatus]).toEqual(['validation_error', 'balance', 422]);
  expect((await catchRefusal(mine.createKey({ settings: { balanceNanoUsd: before } }))).param).toBe('balance');
  await move(before);
  expect(await balance()).toBe(0n);
  await move(0n);
  expect([await balance(), (await mine.getKey({ apiKeyId })).key?.balanceNanoUsd]).toEqual([before, 0n]);
  await move(dollar);
  await mine.deleteKey({ apiKeyId });
  expect(await balance()).toBe(before);
});

test('a deleted key can’t be restored and is no longer listed', async () => {
  const { key } = await mine.createKey({});
  const apiKeyId = key?.apiKeyId ?? 0n;
  await mine.deleteKey({ apiKeyId });
  expect((await catchRefusal(mine.getKey({ apiKeyId }))).code).toBe('not_found');
  expect((await catchRefusal(mine.deleteKey({ apiKeyId }))).code).toBe('not_found');
  expect((await catchRefusal(mine.updateKey({ apiKeyId, settings: { label: 'x' } }))).code).toBe('not_found');
  expect((await mine.listKeys({})).keys.map(each => each.apiKeyId)).not.toContain(apiKeyId);
  const state = { apiKeyId, state: KeyState.ENABLED };
  expect((await catchRefusal(plane.admin.setApiKeyState(state))).code).toBe('not_found');
});

test('unknown ids, impossible ids and other accounts’ ids are not found, all with the same message', async () => {
  const { key } = await others.createKey({});
  for (const apiKeyId of [key?.apiKeyId ?? 0n, 999_999n, 0n, -1n, 2n ** 62n]) {
    for (const call of [
      () => mine.getKey({ apiKeyId }),
      () => mine.updateKey({ apiKeyId, settings: { label: 'x' } }),
      () => mine.deleteKey({ apiKeyId }),
    ]) {
      const { code, message, httpStatus } = await catchRefusal(call());
      expect([code, httpStatus, message]).toEqual(['not_found', 404, `There is no API key ${apiKeyId}.`]);
    }
  }
  expect((await others.getKey({ apiKeyId: key?.apiKeyId ?? 0n })).key?.label).toBe('');
});

test('an invalid value is refused with the name of its field, and changes nothing', async () => {
  const { key } = await mine.createKey({ settings: { label: 'kept' } });
  const apiKeyId = key?.apiKeyId ?? 0n;
  const wrong: [string, object][] = [
    ['label', { label: 'x'.repeat(201) }],
    ['daily_limit', { dailyLimit: 2n ** 63n }],
    ['minute_limit', { minuteLimit: 9_000_000_001n }],
    ['balance', { balanceNanoUsd: -1n }],
    ['allowed_models.1', { allowedModels: { models: ['large', 'acme/unknown'] } }],
    ['allowed_models.1', { allowedModels: { models: ['acme/*', '*a'.repeat(17)] } }],
    ['allowed_models', { allowedModels: { models: Array.from({ length: 1_001 }, () => 'large') } }],
  ];
  for (const [param, settings] of wrong) {
    for (const call of [() => mine.createKey({ settings }), () => mine.updateKey({ apiKeyId, settings })]) {
      const detail = await catchRefusal(call());
      expect([detail.param, detail.code, detail.httpStatus]).toEqual([param, 'validation_error', 422]);
    }
  }
  expect((await mine.getKey({ apiKeyId })).key).toMatchObject({ label: 'kept', dailyLimit: 0n });
  const { message } = await catchRefusal(mine.createKey({ settings: { allowedModels: { models: ['acme/larg'] } } }));
  expect(message).toBe('allowed_models.0: There is no model "acme/larg".');
});

test('settled requests are listed by filters, newest first, and shown with the calculation of their cost only to their account', async () => {
  const { ledger, clock } = plane;
  const { key } = await mine.createKey({});
  const apiKeyId = key?.apiKeyId ?? 0n;
  const spend = async (model: string, tokens: number): Promise<string> => {
    clock.advance(1_000);
    const id = clock.now() * 4096;
    const requestId = publicRequestId(id);
    const funds = {
      inputTokens: 100,
      inputNanoUsd: dollar / 100n,
      outputPicoUsd: 10_000_000n,
      outputTokensMin: 16,
      outputTokensWanted: 1_024,
      plan: true,
    };
    const admitted = await ledger.admit({ id, requestId, key: { id: Number(apiKeyId) }, model, free: false, funds });
    expect(admitted.kind).toBe('admitted');
    const usage = {
      input: 100,
      cacheRead: 40,
      cacheWrite5m: 3,
      cacheWrite1h: 2,
      output: tokens,
      reasoning: 5,
      images: 0,
    };
    await ledger.settle({
      id,
      state: 'client_aborted',
      usage,
      usageSource: 'estimated',
      serviceTier: 'flex',
      latencyMs: 321,
      firstEventMs: 12,
      provider: 'acme',
      attempts: 1,
      prices: {
        input: 1_000_000n,
        cacheRead: 100_000n,
        cacheWrite5m: 1_250_000n,
        cacheWrite1h: 2_000_000n,
        output: 10_000_000n,
        image: null,
      },
      multiplierPermille: 500,
      unpriced: tokens === 10 ? ['service_tier', 'usage.foo_tokens'] : [],
    });
    return requestId;
  };
  const first = await spend('acme/large', 10);
  const beforeSecond = BigInt(clock.now() + 1);
  const second = await spend('acme/small', 20);
  const third = await spend('acme/large', 30);
  const list = async (filter: object) => (await mine.listActivity(filter)).records.map(record => record.requestId);
  expect(await list({ apiKeyId })).toEqual([third, second, first]);
  expect(await list({ apiKeyId, limit: 1, offset: 1 })).toEqual([second]);
  expect(await list({ apiKeyId, model: 'acme/large' })).toEqual([third, first]);
  expect(await list({ apiKeyId, startMs: beforeSecond })).toEqual([third, second]);
  expect(await list({ apiKeyId, endMs: beforeSecond })).toEqual([first]);
  expect((await catchRefusal(mine.listActivity({ limit: 1_001 }))).param).toBe('limit');
  expect((await others.listActivity({})).records).toEqual([]);

  const { record } = await mine.getActivity({ requestId: first });
  // 100 × 1 + 40 × 0.1 + 3 × 1.25 + 2 × 2 + 10 × 10 micro-dollars, at half price.
  expect(record).toMatchObject({
    requestId: first,
    model: 'acme/large',
    apiKeyId,
    costNanoUsd: 105_875n,
    writtenOffNanoUsd: 0n,
    state: RecordState.CLIENT_ABORTED,
    usageSource: UsageSource.ESTIMATED,
    latencyMs: 321n,
    unpriced: ['service_tier', 'usage.foo_tokens'],
    usage: {
      inputTokens: 100,
      cacheReadTokens: 40,
      cacheWrite5mTokens: 3,
      cacheWrite1hTokens: 2,
      outputTokens: 10,
      reasoningTokens: 5,
    },
  });
  expect(record?.buckets.map(({ kind, tokens, paidBy }) => [kind, tokens, paidBy])).toEqual([
    ['input', 100n, Payer.ACCOUNT],
    ['cache_read', 40n, Payer.ACCOUNT],
    ['cache_write_5m', 3n, Payer.ACCOUNT],
    ['cache_write_1h', 2n, Payer.ACCOUNT],
    ['output', 10n, Payer.ACCOUNT],
  ]);
  for (const [client, requestId] of [
    [others, first],
    [mine, 'req_nonsense'],
    [mine, publicRequestId(1)],
  ] as const) {
    expect((await catchRefusal(client.getActivity({ requestId }))).code).toBe('not_found');
  }
});
