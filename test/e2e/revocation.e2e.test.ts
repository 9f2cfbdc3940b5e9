/** Running requests of a key that is revoked, and answers to a client that has closed its sending side. */
import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { RecordState } from '../../src/gen/tollgate/v1/account_pb.ts';
import { KeyState } from '../../src/gen/tollgate/v1/admin_pb.ts';
import { endGateway, expectStreams, type Gateway, heldBy, makeKey, readBalance, turnLoop } from '../gateway.ts';
import { startGateway } from '../hosted-gateway.ts';
import { call } from './account-client.ts';
import { ask, post } from './chat-client.ts';
import { postImages, type TaskBody } from './image-caller.ts';

let gateway: Gateway;
beforeAll(async () => {
  gateway = await startGateway();
});
afterAll(() => endGateway(gateway));

const steer = (line: string, more: object = {}) => ask(`!sim ${line}`, { model: 'sim/large', ...more });

async function listStates(apiKeyId: bigint): Promise<RecordState[]> {
  return (await gateway.account.listActivity({ apiKeyId })).records.map(({ state }) => state);
}

test.each(['the operator', 'its account'])(
  'if %s revokes a key, its streams, answers and jobs end, and what was delivered is charged',
  async who => {
    const { key, id } = await makeKey(gateway);
    const other = await makeKey(gateway);
    const before = await readBalance(gateway);
    const long = 'tokens=2000 tps=50';
    const streamed = post(gateway, '/v1/chat/completions', steer(long, { stream: true }), { key });
    const whole = post(gateway, '/v1/chat/completions', steer(long), { key });
    const others = post(gateway, '/v1/chat/completions', steer('tokens=60 tps=50'), { key: other.key });
    const background = await post(
      gateway,
      '/v1/responses',
      { model: 'sim/large', background: true, input: `!sim ${long}` },
      { key },
    );
    const { id: responseId } = (await background.json()) as { id: string };
    const image = await postImages<TaskBody>(
      gateway,
      'generations',
      { model: 'sim/image', prompt: '!sim delay_ms=60000', async: true },
      { key },
    );
    expect(image.status).toBe(202);
    await expectStreams(gateway, 1);
    await sleep(700);
    await turnLoop(gateway);
    const revokedAtMs = performance.now();
    if (who === 'the operator') await gateway.admin.setApiKeyState({ apiKeyId: id, state: KeyState.REVOKED });
    else await call(gateway, 'DELETE', `/keys/${id}`);
    const text = await (await streamed).text();
    expect([text.includes('invalid_api_key'), text.includes('[DONE]')]).toEqual([true, false]);
    expect((await whole).status).toBe(401);
    expect(performance.now() - revokedAtMs).toBeLessThan(2_000);
    expect((await others).status).toBe(200);
    await expect.poll(() => heldBy(gateway)).toBe(0n);
    expect(await listStates(id)).toEqual(Array(4).fill(RecordState.CLIENT_ABORTED));
    expect(await readBalance(gateway)).toBeLessThan(before);
    const { records } = await gateway.account.listActivity({ apiKeyId: id });
    // The image was not drawn, so it is free.
    for (const { model, costNanoUsd } of records)
      expect([model, costNanoUsd > 0n]).toEqual([model, model !== 'sim/image']);
    const found = await post(gateway, `/v1/responses/${responseId}/cancel`, {}, { key: other.key });
    expect(((await found.json()) as { status: string }).status).toBe('failed');
  },
);

/** Sends a request and closes the sending side of the connection at once. */
function sendAndEnd(body: object): Promise<{ text: string; ms: number }> {
  const { hostname, port } = new URL(gateway.url);
  const json = JSON.stringify(body);
  const beganMs = performance.now();
  return new Promise((done, failed) => {
    let text = '';
    const socket = connect({ host: hostname, port: Number(port), allowHalfOpen: true });
    socket.on('data', (bytes: Buffer) => (text += bytes.toString())).on('error', failed);
    socket.on('end', () => {
      socket.end();
      done({ text, ms: performance.now() - beganMs });
    });
    socket.end(
      `POST /v1/chat/completions HTTP/1.1\r\nhost: gateway\r\nauthorization: Bearer ${gateway.apiKey}\r\n` +
        `content-type: application/json\r\ncontent-length: ${Buffer.byteLength(json)}\r\n\r\n${json}`,
      () => undefined,
    );
  });
}

test('a client that closes its sending side right after its request gets its answer and is charged', async () => {
  for (const stream of [false, true]) {
    const before = await readBalance(gateway);
    const { text } = await sendAndEnd(steer('tokens=30 tps=50', { stream }));
    expect(text).toMatch(/(?:^|\r\n\r\n)HTTP\/1\.1 200 OK\r\n/);
    expect(text).toContain(stream ? 'data: [DONE]' : '"finish_reason":"stop"');
    await expect.poll(() => readBalance(gateway)).toBeLessThan(before);
  }
});

test('answers have headers against caching and content sniffing', async () => {
  const answers = [
    await post(gateway, '/v1/chat/completions', steer('tokens=2')),
    await post(gateway, '/v1/chat/completions', steer('tokens=2', { stream: true })),
    await post(gateway, '/v1/chat/completions', {}),
    await fetch(`${gateway.url}/v1/account/balance`, { headers: { authorization: `Bearer ${gateway.managementKey}` } }),
    await fetch(`${gateway.url}/nowhere`),
    await fetch(`${gateway.rpcUrl}/healthz`),
  ];
  for (const [index, answer] of answers.entries()) {
    await answer.arrayBuffer();
    const { headers } = answer;
    expect([index, headers.get('x-content-type-options')]).toEqual([index, 'nosniff']);
    if (index < 5) expect(headers.get('cache-control')).toContain('no-store');
  }
});

test('the prompt of one account is never a cached prefix for another', async () => {
  const { account } = await gateway.admin.createAccount({ name: 'other', balanceNanoUsd: 10_000_000_000n });
  const { key } = await gateway.admin.createApiKey({ accountId: account?.accountId ?? 0n, settings: {} });
  const prompt = {
    model: 'sim/small',
    messages: [{ role: 'user', content: `${'Once upon a time. '.repeat(900)}` }],
    max_tokens: 16,
  };
  const readCachedTokens = async (credential: string | undefined): Promise<number | undefined> => {
    const answer = await post(
      gateway,
      '/v1/chat/completions',
      prompt,
      credential === undefined ? {} : { key: credential },
    );
    const { usage } = (await answer.json()) as { usage: { prompt_tokens_details?: { cached_tokens?: number } } };
    return usage.prompt_tokens_details?.cached_tokens;
  };
  expect(await readCachedTokens(undefined)).toBe(0);
  expect(await readCachedTokens(undefined)).toBeGreaterThan(1_000);
  expect(await readCachedTokens(key?.key)).toBe(0);
});

test('a small wrong body does not get a large error', async () => {
  // More members than a body may have, and as many as it may have.
  for (const [length, status] of [
    [60_000, 400],
    [9_990, 422],
    [900, 422],
  ] as const) {
    const body = Object.fromEntries(Array.from({ length }, (_, index) => [`f${index}`, 1]));
    const refused = await call(gateway, 'POST', '/keys', { body });
    expect([length, refused.status, refused.text.length < 50_000]).toEqual([length, status, true]);
  }
});
