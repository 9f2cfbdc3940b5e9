import { setImmediate as turn } from 'node:timers/promises';
import { afterEach, expect, test } from 'vitest';
import { Deliveries } from '../../src/core/webhooks/deliveries.ts';
import { type Runtime, systemRuntime } from '../../src/lib/runtime.ts';
import { sealSecret } from '../../src/core/webhooks/webhook-fields.ts';
import { makeWebhookSecret } from '../../src/core/webhooks/signature.ts';
import { SealedBox } from '../../src/lib/sealed-box.ts';
import type { Outbox } from '../../src/ledger/webhooks.ts';
import { type LedgerFixture, makeHash, openFixture } from '../ledger/fixture.ts';

/** How much time passes between two looks at what a loop has done, in ms. */
const stepMs = 1_000;
const box = new SealedBox(['secret']);
const hook = { accountId: 1, url: 'https://a.invalid/', disabled: false, events: ['key.created'] } as const;

const opened: { fixture: LedgerFixture; deliveries: Deliveries }[] = [];
afterEach(async () => {
  for (const { fixture, deliveries } of opened.splice(0)) {
    deliveries.stop();
    await fixture.end();
  }
});

/** Starts a delivery loop on a ledger without webhooks, whose time passes only if the test says so. */
async function openLoop(isShared: boolean, receiver: (url: string) => number | Promise<number> = () => 204) {
  const fixture = await openFixture();
  const { ledger } = fixture;
  let nowMs = 0;
  let timer = { dueMs: Infinity, run: (): void => undefined };
  const runtime: Runtime = {
    ...systemRuntime,
    now: () => fixture.clock.now(),
    monotonicMs: () => nowMs,
    after(ms, run) {
      const own = { dueMs: nowMs + ms, run };
      timer = own;
      return { cancel: () => void (own.dueMs = Infinity), restart: after => void (own.dueMs = nowMs + after) };
    },
  };
  /** The calls of the ledger, each with its time. */
  const calls: [call: string, atMs: number][] = [];
  const replies: Promise<unknown>[] = [];
  const noted = <T extends Promise<unknown>>(call: string, reply: T): T => {
    calls.push([call, nowMs]);
    replies.push(reply);
    return reply;
  };
  const sent: string[] = [];
  /** What the replies of `hasWebhooks` wait for after they were read. */
  const slow = { reply: Promise.resolve() };
  const readWebhooks = async (): Promise<boolean> => {
    const reply = await ledger.hasWebhooks();
    await slow.reply;
    return reply;
  };
  const outbox: Pick<Outbox, 'hasWebhooks' | 'listDueDeliveries' | 'reportDelivery' | 'remindOfExpiry'> = {
    hasWebhooks: () => noted('check', readWebhooks()),
    listDueDeliveries: (limit, resting) => noted('read', ledger.listDueDeliveries(limit, resting)),
    remindOfExpiry: () => noted('remind', ledger.remindOfExpiry()),
    reportDelivery: report => noted('report', ledger.reportDelivery(report)),
  };
  const deliveries = new Deliveries({
    outbox,
    box,
    runtime,
    isShared,
    send: async ({ url, body }) => {
      sent.push(body);
      return receiver(url);
    },
    failed: error => {
      throw error;
    },
  });
  opened.push({ fixture, deliveries });
  await deliveries.start();
  /** Lets time pass; what begins in a second ends before the next one. */
  const pass = async (seconds: number): Promise<void> => {
    for (let second = 0; second < seconds; second += 1) {
      nowMs += stepMs;
      if (timer.dueMs > nowMs) continue;
      timer.dueMs = Infinity;
      timer.run();
      for (let ended = -1; ended < replies.length; await turn()) {
        ended = replies.length;
        await Promise.all(replies);
      }
    }
  };
  const createWebhook = async (more: Partial<typeof hook> | object = {}, accountId = 1): Promise<number> => {
    const secret = sealSecret(box, makeWebhookSecret(), accountId);
    const made = await ledger.createWebhook({ ...hook, ...more, accountId, secret });
    if (typeof made === 'string') throw new Error(made);
    return made.webhookId;
  };
  const createKey = (name: string) =>
    ledger.createKey({ accountId: 1, hash: makeHash(name), masked: name, settings: {} });
  const take = (): [string, number][] => calls.splice(0);
  return { fixture, ledger, deliveries, sent, slow, pass, createWebhook, createKey, take };
}

test('without webhooks a gateway that is alone does nothing, from the first webhook on it reads the outbox every second, and after the last one it stops', async () => {
  const { ledger, deliveries, sent, pass, createWebhook, createKey, take } = await openLoop(false);
  expect(take()).toEqual([['check', 0]]);
  await pass(100);
  expect(take()).toEqual([]);
  const webhookId = await createWebhook();
  deliveries.webhookCreated();
  await createKey('one');
  await pass(1);
  expect(take()).toEqual([
    ['check', 101_000],
    ['remind', 101_000],
    ['read', 101_000],
    ['report', 101_000],
    ['read', 101_000],
  ]);
  expect(sent).toHaveLength(1);
  await pass(2);
  expect(take()).toEqual([
    ['read', 102_000],
    ['read', 103_000],
  ]);
  await ledger.deleteWebhook({ webhookId, accountId: 1 });
  await pass(100);
  const afterDeletion = take();
  expect(afterDeletion.at(-1)).toEqual(['check', 131_000]);
  expect(afterDeletion.filter(([call]) => call === 'remind')).toEqual([]);
});

test('a gateway that shares its ledger checks every 5 seconds for the first webhook of another gateway, and delivers its events', async () => {
  const { sent, pass, createWebhook, createKey, take } = await openLoop(true);
  await pass(11);
  expect(take()).toEqual([
    ['check', 0],
    ['check', 5_000],
    ['check', 10_000],
  ]);
  await createWebhook();
  await createKey('one');
  await pass(3);
  expect([take(), sent]).toEqual([[], []]);
  await pass(1);
  expect(sent).toEqual([expect.stringContaining('key.created')]);
  await createKey('two');
  await pass(1);
  expect(sent).toHaveLength(2);
});

test('a webhook that is created while the gateway checks for webhooks is noticed at once', async () => {
  const { deliveries, sent, slow, pass, createWebhook, createKey } = await openLoop(true);
  const { promise, resolve } = Promise.withResolvers<void>();
  slow.reply = promise;
  const checked = deliveries.start();
  await turn();
  await createWebhook();
  deliveries.webhookCreated();
  resolve();
  await checked;
  await createKey('one');
  await pass(1);
  expect(sent).toHaveLength(1);
});

test('a webhook that fails rests as a whole: after each delay one event is tried, and when one is delivered all are', async () => {
  let status = 500;
  const { deliveries, sent, pass, createWebhook, createKey } = await openLoop(false, () => status);
  await createWebhook();
  deliveries.webhookCreated();
  for (let key = 0; key < 30; key += 1) await createKey(`key ${key}`);
  await pass(1);
  expect(sent).toHaveLength(4);
  await pass(3);
  expect(sent).toHaveLength(4);
  await pass(1);
  expect(sent).toHaveLength(5);
  await pass(24);
  expect(sent).toHaveLength(5);
  status = 204;
  await pass(1);
  // The five that failed have delays of their own, and the clock of the ledger stands still.
  expect(new Set(sent.splice(5)).size).toBe(25);
});

test('accounts take turns, none has more than four attempts at once, and the operator’s events go first', async () => {
  const waiting: (() => void)[] = [];
  const slow = (): Promise<number> =>
    new Promise(resolve => {
      waiting.push(() => resolve(204));
    });
  const urls: string[] = [];
  const receiver = (url: string): number | Promise<number> => {
    urls.push(url);
    return url.includes('//slow') ? slow() : 204;
  };
  const { ledger, deliveries, pass, createWebhook, createKey } = await openLoop(false, receiver);
  const other = await ledger.createAccount({ name: 'other', balance: 0n });
  await createWebhook({ url: 'https://slow.invalid/' });
  for (let key = 0; key < 60; key += 1) await createKey(`key ${key}`);
  await createWebhook({ url: 'https://other.invalid/' }, other.accountId);
  await createWebhook({ url: 'https://operator.invalid/' }, 0);
  const { accountId } = other;
  await ledger.createKey({ accountId, hash: makeHash('last'), masked: 'last', settings: {} });
  deliveries.webhookCreated();
  await pass(1);
  expect(urls.map(url => url.slice(8, 13))).toEqual(['opera', 'slow.', 'other', 'slow.', 'slow.', 'slow.']);
  for (const answer of waiting) answer();
});
