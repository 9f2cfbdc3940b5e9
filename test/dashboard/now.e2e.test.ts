import { Code, ConnectError } from '@connectrpc/connect';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { AccountService } from '../../src/gen/tollgate/v1/account_pb.ts';
import { DashboardService, type WatchNowResponse } from '../../src/gen/tollgate/v1/dashboard_pb.ts';
import { endGateway, type Gateway } from '../gateway.ts';
import { startGateway } from '../hosted-gateway.ts';
import { PageCaller } from './page-caller.ts';

let gateway: Gateway;

beforeAll(async () => {
  gateway = await startGateway({});
});
afterAll(() => endGateway(gateway));

/** Starts an answer that takes a while; `wait` reads it to its end. */
async function ask(key: string, prompt: string) {
  const response = await fetch(`${gateway.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({
      model: 'sim/large',
      stream: true,
      max_tokens: 6_000,
      messages: [{ role: 'user', content: prompt }],
    }),
  });
  expect(response.status).toBe(200);
  return { id: response.headers.get('x-request-id') ?? '', cancel: () => response.body?.cancel() };
}

/** Reads messages until one satisfies the condition. Throws if the stream ends before. */
async function until(
  stream: AsyncIterable<WatchNowResponse>,
  satisfies: (now: WatchNowResponse) => boolean,
): Promise<WatchNowResponse> {
  for await (const now of stream) if (satisfies(now)) return now;
  throw new Error('the stream ended');
}

async function signedIn(origin: string, credential: string): Promise<PageCaller> {
  const page = new PageCaller(origin);
  await page.signIn(credential);
  return page;
}

test('a running request is shown with its hold, which grows, and the account’s held amount equals it', async () => {
  const page = await signedIn(gateway.url, gateway.managementKey);
  const stream = page.client(DashboardService).watchNow({}, { timeoutMs: 20_000 });
  const messages = stream[Symbol.asyncIterator]();
  const read = { [Symbol.asyncIterator]: () => ({ next: () => messages.next() }) };
  const idle = await until(read, () => true);
  expect(idle).toMatchObject({
    runningCount: 0,
    runningHeldNanoUsd: 0n,
    funds: { balanceNanoUsd: 10_000_000_000n, heldNanoUsd: 0n },
  });
  expect(idle.lastEntry).toBe(1n);
  const requested = await ask(gateway.apiKey, '!sim tokens=5000 tps=800\nWrite.');
  const first = await until(read, ({ runningCount }) => runningCount === 1);
  expect(first.running[0]).toMatchObject({ requestId: requested.id, model: 'sim/large', accountId: 1n, apiKeyId: 1n });
  expect(first.running[0]?.heldNanoUsd).toBe(first.runningHeldNanoUsd);
  const grown = await until(read, ({ runningHeldNanoUsd }) => runningHeldNanoUsd > first.runningHeldNanoUsd);
  expect(grown.funds?.heldNanoUsd).toBeGreaterThanOrEqual(first.runningHeldNanoUsd);
  await requested.cancel();
  const settled = await until(read, ({ runningCount, funds }) => runningCount === 0 && funds?.heldNanoUsd === 0n);
  const { balanceNanoUsd } = await gateway.account.getBalance({});
  expect(settled.funds?.balanceNanoUsd).toBe(balanceNanoUsd);
  expect(balanceNanoUsd).toBeLessThan(10_000_000_000n);
});

test('running requests of other accounts and other keys are hidden, except from the operator', async () => {
  const other =
    (await gateway.admin.createAccount({ name: 'other', balanceNanoUsd: 5_000_000_000n })).account?.accountId ?? 0n;
  const [theirs, manager, sibling] = await Promise.all([
    gateway.admin.createApiKey({ accountId: other }),
    gateway.admin.createManagementKey({ accountId: other, scopes: ['all'] }),
    gateway.admin.createApiKey({ accountId: 1n }),
  ]);
  const requested = await ask(gateway.apiKey, '!sim tokens=5000 tps=400\nWrite.');
  const link = (await gateway.admin.createSignInLink({})).url.split('#token=')[1] ?? '';
  const seen = async (page: PageCaller) => {
    const now = await until(page.client(DashboardService).watchNow({}, { timeoutMs: 10_000 }), () => true);
    return [now.runningCount, now.running.map(({ requestId }) => requestId), now.funds?.balanceNanoUsd];
  };
  const balance = 5_000_000_000n;
  expect(await seen(await signedIn(gateway.url, manager.key?.key ?? ''))).toEqual([0, [], balance]);
  expect(await seen(await signedIn(gateway.url, theirs.key?.key ?? ''))).toEqual([0, [], undefined]);
  expect(await seen(await signedIn(gateway.url, sibling.key?.key ?? ''))).toEqual([0, [], undefined]);
  expect(await seen(await signedIn(gateway.url, gateway.apiKey))).toEqual([1, [requested.id], undefined]);
  const operator = await signedIn(gateway.rpcUrl, link);
  expect(await seen(operator)).toEqual([1, [requested.id], undefined]);
  expect(await seen(operator.set('x-tollgate-account-id', String(other)))).toEqual([0, [], balance]);
  await requested.cancel();
});

test('a stream ends with the session, and failed requests are counted for the viewers who may see them', async () => {
  const refused = await fetch(`${gateway.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${gateway.apiKey}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'no/model', messages: [{ role: 'user', content: 'x' }] }),
  });
  expect(refused.status).toBe(400);
  const { error } = (await refused.json()) as { error: { code: string } };
  const page = await signedIn(gateway.url, gateway.managementKey);
  const { sessionId } = await page.client(DashboardService).whoAmI({});
  const codes: string[][] = [];
  const ended = (async () => {
    for await (const { errors } of page.client(DashboardService).watchNow({}, { timeoutMs: 20_000 })) {
      codes.push(errors.map(({ code, count }) => `${code} ${count}`));
      if (codes.length === 1) await gateway.admin.revokeSession({ sessionId });
    }
  })().then(
    () => undefined,
    (thrown: unknown) => ConnectError.from(thrown).code,
  );
  expect(await ended).toBe(Code.Unauthenticated);
  expect(codes[0]).toEqual([`${error.code} 1`]);
  await expect(page.client(AccountService).getBalance({})).rejects.toThrow('The session has ended.');
});
