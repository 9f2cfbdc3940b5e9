/** Requests whose cost exceeds their holds and the balance, until the account is suspended (docs/operations.md "Suspended accounts"). */
import { afterAll, expect, test } from 'vitest';
import { runInside } from '../cli/run-inside.ts';
import { call, newAccount, newKey, readDollars, type RecordDetailJson } from '../e2e/account-client.ts';
import { ask, complete } from '../e2e/chat-client.ts';
import { readPage } from '../e2e/exposition.ts';
import { dataFrame, type Scripted, ScriptedUpstream } from '../e2e/scripted-upstream.ts';
import { endGateway, startGateway } from '../gateway.ts';
import { testPeak } from './peak-memory.ts';

/** Returns an answer for which the provider reports that many input tokens, whatever it was sent. */
function answerWith(tokens: number): Scripted {
  const usage = { prompt_tokens: tokens, completion_tokens: 0, total_tokens: tokens };
  const head = { id: 'c', created: 1, model: 'm' };
  const chunk = { ...head, object: 'chat.completion.chunk' };
  return {
    frames: [
      dataFrame({ ...chunk, choices: [{ index: 0, delta: { content: 'Well.' }, finish_reason: null }] }),
      dataFrame({ ...chunk, choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] }),
      dataFrame({ ...chunk, choices: [], usage }),
      'data: [DONE]\n\n',
    ],
    whole: {
      ...head,
      object: 'chat.completion',
      choices: [{ index: 0, message: { role: 'assistant', content: 'Well.' }, finish_reason: 'stop' }],
      usage,
    },
  };
}

const provider = await ScriptedUpstream.start({ cheap: answerWith(10), dear: answerWith(400_000) });
const gateway = await startGateway({
  config: `
retries: 0
ledger: { write_off_limit: 0.5 }
providers: { up: { protocol: chat, base_url: "${provider.url}/v1", api_key: x } }
models:
  - { id: acme/model, max_output_tokens: 100, pricing: { input: 1, output: 0 }, routes: [{ provider: up, model: m }] }
`,
});
afterAll(async () => {
  await endGateway(gateway);
  provider.stop();
});

/** Requests an answer. Returns the status, the code of the error if there is one, and the request's id. */
async function send(key: string, text: string) {
  const { status, body, headers } = await complete(gateway, ask(text, { model: 'acme/model' }), { key });
  return { outcome: [status, body.error?.code], id: headers.get('x-request-id') ?? '' };
}

/** Returns the value of a metric with these labels; undefined if there is none. */
async function readMetric(name: string, labels: Readonly<Record<string, string>> = {}): Promise<number | undefined> {
  const page = await (await fetch(`${gateway.rpcUrl}/metrics`)).text();
  const samples = readPage(page).get(name)?.samples ?? [];
  return samples.find(sample => Object.entries(labels).every(([label, value]) => sample.labels[label] === value))
    ?.value;
}

async function addCredit(accountId: bigint, dollars: string): Promise<void> {
  expect((await runInside(gateway, ['credits', 'add', String(accountId), dollars])).code).toBe(0);
}

const suspensions = () => readMetric('tollgate_account_suspensions_total', { reason: 'write_offs' });
const suspendedLine = /"accountId":(\d+),"reason":"write_offs".*an account was suspended/;
const ok = [200, undefined];
const refused = [403, 'account_suspended'];

test('an account with more write-offs than ledger.write_off_limit is suspended until the operator resumes it; no other account is affected', async () => {
  const other = gateway.apiKey;
  const { accountId, managementKey } = await newAccount(gateway, 0.1);
  const { key } = await newKey(gateway, {}, managementKey);
  const { key: sibling } = await newKey(gateway, {}, managementKey);
  /** Returns the account as the operator sees it; `suspended` is absent unless it is suspended. */
  const show = async () => {
    const { json } = await runInside(gateway, ['accounts', 'show', String(accountId), '--json']);
    return json as { readonly suspended?: string; readonly balance: number; readonly held: number };
  };
  expect(await suspensions()).toBe(0);

  // The answer costs $0.40. The account pays what it has, $0.10, and $0.30 are written off: less than the limit.
  const dear = await send(key, 'dear');
  expect(dear.outcome).toEqual(ok);
  const record = await call<RecordDetailJson>(gateway, 'GET', `/activity/${dear.id}`, { key: managementKey });
  expect([record.body.cost, record.body.written_off]).toEqual([0.1, 0.3]);
  await addCredit(accountId, '0.1');
  expect((await send(key, 'cheap')).outcome).toEqual(ok);
  expect([(await show()).suspended, await suspensions()]).toEqual([undefined, 0]);
  expect(gateway.printed()).not.toMatch(suspendedLine);

  // The next $0.30 exceed it.
  expect((await send(key, 'dear')).outcome).toEqual(ok);
  await addCredit(accountId, '1');
  const calls = provider.bodies.length;
  for (const each of [key, sibling]) expect((await send(each, 'cheap')).outcome).toEqual(refused);
  expect(provider.bodies).toHaveLength(calls);
  expect(await show()).toMatchObject({ suspended: 'write_offs', balance: 1, held: 0 });
  // The gateway writes its log up to a tenth of a second later.
  await expect.poll(() => suspendedLine.exec(gateway.printed())?.[1]).toBe(String(accountId));
  expect([await suspensions(), await readMetric('tollgate_written_off_dollars_total')]).toEqual([
    1,
    expect.closeTo(0.6, 4),
  ]);
  expect((await send(other, 'cheap')).outcome).toEqual(ok);
  // The account's manager still sees what happened.
  expect(await readDollars(gateway, managementKey)).toBe(1);

  const resumed = await runInside(gateway, ['accounts', 'resume', String(accountId)]);
  expect([resumed.code, resumed.stderr]).toEqual([0, '']);
  for (const each of [key, sibling, other]) expect((await send(each, 'cheap')).outcome).toEqual(ok);
  expect([(await show()).suspended, await suspensions()]).toEqual([undefined, 1]);
});

test('after it was resumed, only new write-offs count', async () => {
  const { accountId, managementKey } = await newAccount(gateway, 0.1);
  const { key } = await newKey(gateway, {}, managementKey);
  const before = (await suspensions()) ?? 0;
  for (const [sent, counted] of [
    ['dear', 0],
    ['dear', 1],
  ] as const) {
    expect((await send(key, sent)).outcome).toEqual(ok);
    expect(await suspensions()).toBe(before + counted);
    await addCredit(accountId, '0.1');
  }
  expect((await send(key, 'dear')).outcome).toEqual(refused);
  await runInside(gateway, ['accounts', 'resume', String(accountId)]);
  expect((await send(key, 'dear')).outcome).toEqual(ok);
  expect(await suspensions()).toBe(before + 1);
  await addCredit(accountId, '0.1');
  expect((await send(key, 'dear')).outcome).toEqual(ok);
  expect(await suspensions()).toBe(before + 2);
});

testPeak(gateway);
