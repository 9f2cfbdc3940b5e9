import { expect, test } from 'vitest';
import { errorTable } from '../../src/errors/error-table.ts';
import { ask, startListener } from './listener.ts';

test('the page of errors needs no key, and has every code with its status and tip', async () => {
  const listener = await startListener();
  const reply = await ask(listener, '/docs/errors', { headers: {} });
  expect([reply.status, reply.headers['content-type']]).toEqual([200, 'text/html; charset=utf-8']);
  for (const [code, { http }] of Object.entries(errorTable)) {
    expect(reply.text).toContain(
      `<section id="${code}"><h2><code>${code}</code></h2>\n<p class="facts">Status ${http},`,
    );
  }
  expect(reply.text).toContain('Use one of the models that GET /v1/models lists for this key');
});
