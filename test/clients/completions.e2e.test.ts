/** Legacy completions with the unmodified official OpenAI client, from the built-in model and through a second gateway in front of it. */
import { OpenAI } from 'openai';
import { afterAll, describe, expect, test } from 'vitest';
import { endGateway } from '../gateway.ts';
import { startGateway } from '../hosted-gateway.ts';

const inner = await startGateway({ config: 'simulator: { tokens_per_second: 0 }\n' });
const outer = await startGateway({
  config: `
providers:
  inner: { protocol: chat, base_url: "${inner.url}/v1", api_key: "\${INNER_KEY}" }
models:
  - { id: acme/small, context_length: 128000, max_output_tokens: 8192, endpoints: [/v1/completions], pricing: { input: 1, output: 2 }, routes: [{ provider: inner, model: sim/small }] }
`,
  environment: { INNER_KEY: inner.apiKey },
});
afterAll(async () => {
  await endGateway(outer);
  await endGateway(inner);
});

describe.each([
  { name: 'directly', gateway: inner, model: 'sim/small' },
  { name: 'through a second gateway', gateway: outer, model: 'acme/small' },
])('$name', ({ gateway, model }) => {
  const openai = new OpenAI({ baseURL: `${gateway.url}/v1`, apiKey: gateway.apiKey, maxRetries: 0 });

  test('whole', async () => {
    const answer = await openai.completions.create({ model, prompt: ['a\n!sim say=one', 'b\n!sim say=two'] });
    expect(answer.choices.map(({ text }) => text)).toEqual(['one', 'two']);
    expect(answer.usage?.completion_tokens).toBe(2);
  });

  test('streamed', async () => {
    const options = { stream: true, stream_options: { include_usage: true } } as const;
    let text = '';
    let tokens = 0;
    for await (const chunk of await openai.completions.create({ model, prompt: '!sim say=one two', ...options })) {
      text += chunk.choices[0]?.text ?? '';
      tokens = chunk.usage?.completion_tokens ?? tokens;
    }
    expect([text, tokens]).toEqual(['one two', 2]);
  });

  test('an error in a stream is thrown', async () => {
    const stream = await openai.completions.create({ model, prompt: '!sim tokens=20 cut=2', stream: true });
    const read = async (): Promise<void> => {
      for await (const chunk of stream) expect(chunk.object).toBe('text_completion');
    };
    await expect(read()).rejects.toMatchObject({ code: 'upstream_error' });
  });
});
