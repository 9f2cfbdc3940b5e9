import { expect, test } from 'vitest';
import { GatewayError } from '../../src/errors/gateway-error.ts';
import { answering, apiKey, ask, chat, refusing, startListener } from './listener.ts';

const canary = 'canary-4711';

test('an answered request is one line: who, what, how long, how much', async () => {
  const listener = await startListener();
  const { headers } = await chat(listener, { stream: true });
  expect(listener.log).toEqual([
    {
      level: 30,
      time: expect.stringMatching(/^\d{4}-\d\d-\d\dT/),
      msg: 'request',
      requestId: headers['x-request-id'],
      keyId: 1,
      method: 'POST',
      path: '/v1/chat/completions',
      status: 200,
      model: 'acme/large',
      stream: true,
      latencyMs: expect.any(Number),
      firstEventMs: expect.any(Number),
      tokens: { input: 12, cache_read: 0, cache_write_5m: 0, cache_write_1h: 0, output: 3 },
      costUsd: 0.000024,
    },
  ]);
});

test('a refused request is one line with its code and field', async () => {
  const listener = await startListener();
  await chat(listener, { temperature: 'hot' });
  expect(listener.log).toHaveLength(1);
  expect(listener.log[0]).toMatchObject({ level: 30, status: 422, code: 'validation_error', param: 'temperature' });
});

test('a path is logged by its pattern, not as it was sent; an unknown one as it was sent, but for what may be a secret', async () => {
  const listener = await startListener();
  await ask(listener, `/v1/models/${canary}?q=${canary}`);
  await ask(listener, `/v2/nothing?q=${canary}`);
  await ask(listener, `/v1/skills/${apiKey}/sk-short/a%20b`);
  await ask(listener, '/a'.repeat(300));
  expect(listener.log.map(line => line['path'])).toEqual([
    '/v1/models/*',
    '/v2/nothing',
    '/v1/skills/…/…/…',
    '/a'.repeat(100),
  ]);
  expect(JSON.stringify(listener.log)).not.toContain(apiKey);
  expect(JSON.stringify(listener.log)).not.toContain(canary);
});

test('keys, prompts, outputs and raw bodies reach neither log nor metrics, whatever goes wrong', async () => {
  const causes = [
    new Error('read failed'),
    new GatewayError('upstream_rejected', `The provider says: ${canary}`),
    new GatewayError('upstream_error', `The provider failed: ${canary}`, {
      cause: Object.assign(new Error(canary), { name: 'UpstreamFailure', kind: 'status' }),
      violations: [{ path: ['a'], message: canary, type: 'x', inputJson: canary }],
    }),
  ];
  for (const generate of [answering(canary), ...causes.map(refusing)]) {
    const listener = await startListener({ generate });
    await chat(listener, { messages: [{ role: 'user', content: canary }] });
    await chat(listener, { messages: [{ role: 'user', content: canary }], stream: true });
    await chat(listener, { temperature: canary });
    await ask(listener, '/v1/chat/completions', { body: `{"messages": ${canary}` });
    await ask(listener, '/v1/chat/completions', { body: '{}', headers: { 'x-api-key': `sk-tg-${canary}` } });
    const written = JSON.stringify(listener.log) + listener.metrics.text();
    expect(listener.log.length).toBe(5);
    expect(written).not.toContain(canary);
    expect(written).not.toContain(apiKey);
  }
});

test('an upstream’s failure is logged by its kind', async () => {
  const cause = Object.assign(new Error('the prompt, quoted'), { name: 'UpstreamFailure', kind: 'truncated' });
  const listener = await startListener({
    generate: refusing(new GatewayError('upstream_error', 'Failed.', { cause })),
  });
  await chat(listener);
  expect(listener.log[0]).toMatchObject({
    level: 40,
    status: 502,
    error: {
      name: 'UpstreamFailure',
      kind: 'truncated',
      at: expect.arrayContaining([expect.stringContaining('log.test.ts')]),
    },
  });
});
