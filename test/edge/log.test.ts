import { expect, test } from 'vitest';
import { GatewayError } from '../../src/errors/gateway-error.ts';
import { answering, apiKey, ask, chat, refusing, startListener } from './listener.ts';

const canary = 'canary-4711';

test('an answered request has one log line with account, model, times and cost', async () => {
  const listener = await startListener();
  const { headers } = await chat(listener, { stream: true });
  expect(listener.log).toEqual([
    {
      level: 'info',
      time: expect.stringMatching(/^\d{4}-\d\d-\d\dT/),
      msg: 'request',
      request_id: headers['x-request-id'],
      account_id: 1,
      key_id: 1,
      model: 'acme/large',
      endpoint: '/v1/chat/completions',
      attempts: 0,
      status: 200,
      finish: 'stop',
      tokens: { input: 12, cache_read: 0, cache_write_5m: 0, cache_write_1h: 0, output: 3 },
      cost: 0.000024,
      latency_ms: expect.any(Number),
      ttft_ms: expect.any(Number),
    },
  ]);
});

test('a refused request has one log line with its code and field', async () => {
  const listener = await startListener();
  await chat(listener, { temperature: 'hot' });
  expect(listener.log).toHaveLength(1);
  expect(listener.log[0]).toMatchObject({ level: 'info', status: 422, code: 'validation_error', param: 'temperature' });
});

test('a path is logged by its pattern; an unknown path as it was requested, without its query and without keys', async () => {
  const listener = await startListener();
  await ask(listener, `/v1/models/${canary}?q=${canary}`);
  await ask(listener, `/v2/chat/completions?q=${canary}`, { body: '{}' });
  await ask(listener, `/v1/${apiKey}/x`);
  expect(listener.log.map(({ endpoint, method, path }) => ({ endpoint, method, path }))).toEqual([
    { endpoint: '/v1/models/*', method: undefined, path: undefined },
    { endpoint: 'other', method: 'POST', path: '/v2/chat/completions' },
    { endpoint: 'other', method: 'GET', path: '/v1/[redacted]/x' },
  ]);
  expect(JSON.stringify(listener.log)).not.toContain(canary);
  expect(listener.metrics.text()).toContain('endpoint="other"');
  expect(listener.metrics.text()).not.toContain('/v2');
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

test('the log line of an upstream’s failure has its kind', async () => {
  const cause = Object.assign(new Error('the prompt, quoted'), { name: 'UpstreamFailure', kind: 'truncated' });
  const listener = await startListener({
    generate: refusing(new GatewayError('upstream_error', 'Failed.', { cause })),
  });
  await chat(listener);
  expect(listener.log[0]).toMatchObject({
    level: 'warn',
    status: 502,
    code: 'upstream_error',
  });
  // Such failures are expected, so they have no stack.
  expect(listener.log[0]?.['error']).toEqual({ name: 'UpstreamFailure', kind: 'truncated' });
});

test('a defect of the gateway is logged with its stack', async () => {
  const listener = await startListener({ generate: refusing(new Error('read failed')) });
  await chat(listener);
  expect(listener.log[0]).toMatchObject({
    level: 'error',
    status: 500,
    error: { message: 'read failed', at: expect.arrayContaining([expect.stringContaining('log.test.ts')]) },
  });
});

test('the request id and the trace that a client sends are in the log line', async () => {
  const listener = await startListener();
  const trace = '4bf92f3577b34da6a3ce929d0e0e4736';
  await ask(listener, '/v1/chat/completions', {
    body: '{}',
    headers: { 'x-request-id': 'order 4711', traceparent: `00-${trace}-00f067aa0ba902b7-01` },
  });
  await ask(listener, '/v1/models', { headers: { 'x-request-id': 'x'.repeat(257), traceparent: '00-0-0-00' } });
  expect(listener.log.map(line => [line['client_request_id'], line['trace_id']])).toEqual([
    ['order 4711', trace],
    [undefined, undefined],
  ]);
});
