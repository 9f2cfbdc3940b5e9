/** The configuration is reloaded by a signal or by the operator's call, completely or not at all (docs/configuration.md "Reloading"). */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { ConnectError } from '@connectrpc/connect';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { fromConnectError } from '../../src/rpc/errors.ts';
import { endGateway, type Gateway, startGateway } from '../gateway.ts';
import { RawUpstream, whole } from '../upstreams/raw-upstream.ts';

const answer = (text: string): string =>
  JSON.stringify({
    id: 'c',
    object: 'chat.completion',
    created: 1,
    model: 'm',
    choices: [{ index: 0, message: { role: 'assistant', content: text }, finish_reason: 'stop' }],
    usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
  });

let first: RawUpstream;
let second: RawUpstream;
let gateway: Gateway;
/** The first upstream answers prompts with "wait" only once this is resolved. */
const waiting = Promise.withResolvers<undefined>();
beforeAll(async () => {
  first = await RawUpstream.start(async (socket, { body }) => {
    if (body.includes('wait')) await waiting.promise;
    socket.write(whole(200, answer('first')));
  });
  second = await RawUpstream.start(socket => void socket.write(whole(200, answer('second'))));
  gateway = await startGateway({ config: config(first) });
});
afterAll(async () => {
  await endGateway(gateway);
  await Promise.all([first.stop(), second.stop()]);
});

function config(upstream: RawUpstream, more = ''): string {
  return `
providers:
  up: { protocol: chat, base_url: "${upstream.baseUrl}", api_key: canary-of-the-upstream }
models:
  - { id: acme/a, pricing: { input: 1, output: 1 }, endpoints: [/v1/chat/completions], routes: [{ provider: up, model: a }] }
${more}`;
}
const write = (text: string): void => writeFileSync(join(gateway.home.folder, 'gateway.yaml'), text);
async function say(model: string, content = 'hi'): Promise<[number, string]> {
  const response = await fetch(`${gateway.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${gateway.apiKey}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model, messages: [{ role: 'user', content }] }),
  });
  const body = (await response.json()) as {
    choices?: { message: { content: string } }[];
    error?: { code: string };
  };
  return [response.status, body.choices?.[0]?.message.content ?? body.error?.code ?? ''];
}

test('a reload applies to providers, models and aliases; running requests stay with their provider', async () => {
  expect(await say('acme/a')).toEqual([200, 'first']);
  const running = say('acme/a', 'wait');
  await expect.poll(() => first.requests.length).toBe(2);
  write(
    config(
      second,
      '  - { id: acme/b, pricing: { input: 0, output: 0 }, routes: [{ provider: up, model: b }] }\naliases: { b: acme/b }',
    ),
  );
  const { file, providers, models, needsRestart } = await gateway.admin.reloadConfiguration({});
  expect([file.endsWith('gateway.yaml'), providers, models > 2, needsRestart]).toEqual([true, 1, true, []]);
  expect(await say('acme/a')).toEqual([200, 'second']);
  expect(await say('b')).toEqual([200, 'second']);
  waiting.resolve(undefined);
  expect(await running).toEqual([200, 'first']);
  // The old provider’s connections are closed once no request uses them.
  await Promise.all(first.requests.map(({ closedAtMs }) => closedAtMs));
});

test('SIGHUP does the same', async () => {
  write(config(second, 'aliases: { other: acme/a }'));
  process.kill(gateway.pid, 'SIGHUP');
  await expect.poll(() => say('other'), { timeout: 10_000 }).toEqual([200, 'second']);
  expect(await say('acme/b')).toEqual([400, 'model_not_found']);
});

test('settings that take effect only at the next start are named', async () => {
  write(config(second, 'aliases: { other: acme/a }\nmetrics: public'));
  expect((await gateway.admin.reloadConfiguration({})).needsRestart).toEqual(['metrics']);
  // The settings are named until the file has the values of the start again.
  expect((await gateway.admin.reloadConfiguration({})).needsRestart).toEqual(['metrics']);
  write(config(second, 'aliases: { other: acme/a }'));
  expect((await gateway.admin.reloadConfiguration({})).needsRestart).toEqual([]);
});

describe('a bad file', () => {
  test.each([
    ['a wrong key', 'modells: []', /gateway\.yaml:\d+: modells: is not a known key/],
    ['a wrong value', 'strict: maybe', /gateway\.yaml:\d+: strict: /],
    ['an alias of nothing', 'aliases: { x: acme/none }', /gateway\.yaml:\d+: aliases\.x: .*names no model/],
    ['invalid YAML', 'a: [', /gateway\.yaml:\d+/],
  ])('with %s changes nothing and says why', async (_, wrong, expected) => {
    write(config(first, wrong));
    const refusal = await gateway.admin.reloadConfiguration({}).catch((error: unknown) => error);
    expect(refusal).toBeInstanceOf(ConnectError);
    const { code, message, facts } = fromConnectError(refusal);
    expect(code).toBe('invalid_request');
    expect(message).toMatch(expected);
    expect(facts.violations?.[0]?.message).toMatch(expected);
    expect(message).not.toContain('canary');
    expect(await say('other')).toEqual([200, 'second']);
  });

  test('is reported in the log if a signal requested the reload', async () => {
    write(config(first, 'retries: many'));
    process.kill(gateway.pid, 'SIGHUP');
    await expect.poll(() => gateway.printed(), { timeout: 10_000 }).toMatch(/gateway\.yaml:\d+: retries: /);
    expect(await say('acme/a')).toEqual([200, 'second']);
    expect(gateway.printed()).not.toContain('canary');
  });
});

test('the audit says who reloaded, and which settings changed, prices too, also after a restart', async () => {
  const read = async () => {
    const { records } = await gateway.admin.listAccountAudit({ accountId: 0n, query: { limit: 1 } });
    const [{ action, actorType, resourceId, beforeJson, afterJson } = expect.fail('no row')] = records;
    return { action, actorType, resourceId, before: JSON.parse(beforeJson ?? ''), after: JSON.parse(afterJson ?? '') };
  };
  const reloads = async (): Promise<bigint | undefined> =>
    (await gateway.admin.listAccountAudit({ accountId: 0n, query: { limit: 1 } })).records[0]?.auditId;
  write(config(first));
  await gateway.admin.reloadConfiguration({});
  const before = await reloads();
  write(config(first, 'retries: 5').replace('input: 1,', 'input: 1.25,').replace('canary-of', 'other-of'));
  process.kill(gateway.pid, 'SIGHUP');
  await expect.poll(reloads, { timeout: 10_000 }).toBe((before ?? 0n) + 1n);
  const path = 'models[acme/a].pricing.input';
  expect(await read()).toEqual({
    action: 'configuration.reload',
    actorType: 'gateway',
    resourceId: join(gateway.home.folder, 'gateway.yaml'),
    before: { 'providers.up.api_key': ['***'], retries: 2, [path]: 1 },
    after: { 'providers.up.api_key': ['***'], retries: 5, [path]: 1.25 },
  });
  write(config(first));
  await gateway.admin.reloadConfiguration({});
  expect(await read()).toMatchObject({ actorType: 'operator', before: { [path]: 1.25 }, after: { [path]: 1 } });
  write(config(first).replace('input: 1,', 'input: 3,'));
  await gateway.stop();
  gateway = await startGateway({ home: gateway.home, config: config(first).replace('input: 1,', 'input: 3,') });
  expect(await read()).toMatchObject({ action: 'configuration.start', before: { [path]: 1 }, after: { [path]: 3 } });
  expect(gateway.printed()).not.toContain('canary');
  const { data } = (await gateway.cli(['models', 'history', 'acme/a', '--json'])).json as { data: unknown[] };
  const changed_at = expect.stringMatching(/^20\d\d-.*Z$/);
  expect(data.slice(0, 3)).toEqual([
    { model: 'acme/a', changed_at, before: { input: 1 }, after: { input: 3 }, actor: 'gateway' },
    { model: 'acme/a', changed_at, before: { input: 1.25 }, after: { input: 1 }, actor: 'operator' },
    { model: 'acme/a', changed_at, before: { input: 1 }, after: { input: 1.25 }, actor: 'gateway' },
  ]);
  expect((await gateway.cli(['models', 'history', 'acme/a'])).stdout).toMatch(/ acme\/a +input 1 +input 3 +gateway\n/);
});

test('only the operator can reload', async () => {
  const response = await fetch(`${gateway.rpcUrl}/tollgate.v1.AdminService/ReloadConfiguration`, {
    method: 'POST',
    headers: { authorization: `Bearer ${gateway.managementKey}`, 'content-type': 'application/json' },
    body: '{}',
  });
  expect(response.status).toBe(403);
});
