/** An input near the context length is counted exactly before anything is sent, because an upstream might accept and cut it. */
import { afterAll, expect, test } from 'vitest';
import { endGateway } from '../gateway.ts';
import { startGateway } from '../hosted-gateway.ts';
import { complete } from './chat-client.ts';

// Nothing listens at this address, so every request that is sent fails with 502.
const gateway = await startGateway({
  config: `
retries: 0
providers:
  nobody: { protocol: chat, base_url: "http://127.0.0.1:9/v1", api_key: k }
models:
  - id: acme/small
    context_length: 1000
    max_output_tokens: 100
    endpoints: [/v1/chat/completions]
    pricing: { input: 1, output: 1 }
    routes: [{ provider: nobody, model: m }]
`,
});
afterAll(() => endGateway(gateway));

test.each([
  [1_020, 400, 'context_length_exceeded'],
  [980, 502, 'upstream_error'],
])(
  'for %i words, whose lowest and highest estimate are on both sides of the limit, the exact count decides: %i %s',
  async (words, status, code) => {
    const messages = [{ role: 'user', content: 'word '.repeat(words) }];
    const answer = await complete(gateway, { model: 'acme/small', messages });
    expect([answer.status, answer.body.error.code]).toEqual([status, code]);
  },
);
