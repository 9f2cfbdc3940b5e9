/** Embeddings with unmodified clients, from the built-in model and through a second gateway in front of it. */
import { createOpenAI } from '@ai-sdk/openai';
import { OpenAIEmbeddings } from '@langchain/openai';
import { embed, embedMany } from 'ai';
import { OpenAIEmbedding } from '@llamaindex/openai';
import { OpenAI } from 'openai';
import { afterAll, describe, expect, test } from 'vitest';
import { endGateway, type Gateway } from '../gateway.ts';
import { startGateway } from '../hosted-gateway.ts';

const inner = await startGateway();
const outer = await startGateway({
  config: `
providers:
  inner: { protocol: responses, base_url: "${inner.url}/v1", api_key: "\${INNER_KEY}" }
models:
  - { id: acme/embed, context_length: 8192, endpoints: [/v1/embeddings], capabilities: { dimensions: true }, tokenizer: cl100k_base, pricing: { input: 0.10 }, routes: [{ provider: inner, model: sim/embed }] }
`,
  environment: { INNER_KEY: inner.apiKey },
});
afterAll(async () => {
  await endGateway(outer);
  await endGateway(inner);
});

const texts = ['The gate is open.', 'Das Tor ist offen. 門', 'a'.repeat(2000)];

/** Returns the vectors that the REST interface returns. */
async function expected({ url, apiKey }: Gateway, model: string): Promise<number[][]> {
  const response = await fetch(`${url}/v1/embeddings`, {
    method: 'POST',
    headers: { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model, input: texts, encoding_format: 'float' }),
  });
  const { data } = (await response.json()) as { data: { embedding: number[] }[] };
  return data.map(({ embedding }) => embedding);
}

describe.each([
  { name: 'directly', gateway: inner, model: 'sim/embed' },
  { name: 'through a second gateway', gateway: outer, model: 'acme/embed' },
])('$name', ({ gateway, model }) => {
  const baseURL = `${gateway.url}/v1`;
  const openai = new OpenAI({ baseURL, apiKey: gateway.apiKey, maxRetries: 0 });

  test('openai: without encoding_format (base64 on the wire), float and base64', async () => {
    const vectors = await expected(gateway, model);
    const standard = await openai.embeddings.create({ model, input: texts });
    expect(standard.data.map(({ embedding }) => embedding)).toEqual(vectors);
    expect(standard.usage.prompt_tokens).toBeGreaterThan(10);
    const float = await openai.embeddings.create({ model, input: texts, encoding_format: 'float' });
    expect(float.data.map(({ embedding }) => embedding)).toEqual(vectors);
    const [base64] = (await openai.embeddings.create({ model, input: texts[0] ?? '', encoding_format: 'base64' })).data;
    const bytes = Buffer.from(base64?.embedding as unknown as string, 'base64');
    expect(Array.from({ length: bytes.length / 4 }, (_, at) => bytes.readFloatLE(at * 4))).toEqual(vectors[0]);
  });

  test('openai: dimensions, and an error that names the wrong field', async () => {
    const { data } = await openai.embeddings.create({ model, input: 'short', dimensions: 8 });
    expect(data[0]?.embedding).toHaveLength(8);
    await expect(openai.embeddings.create({ model, input: ['fine', ''] })).rejects.toMatchObject({
      status: 422,
      param: 'input[1]',
    });
  });

  test('LlamaIndex (with version 5 of the openai package): a batch of texts, and a single text', async () => {
    const embedding = new OpenAIEmbedding({ model, apiKey: gateway.apiKey, baseURL, maxRetries: 0 });
    const vectors = await expected(gateway, model);
    expect(await embedding.getTextEmbeddings(texts)).toEqual(vectors);
    expect(await embedding.getTextEmbedding(texts[0] ?? '')).toEqual(vectors[0]);
  });

  test('AI SDK: embed and embedMany', async () => {
    const embedding = createOpenAI({ baseURL, apiKey: gateway.apiKey }).embedding(model);
    const vectors = await expected(gateway, model);
    const many = await embedMany({ model: embedding, values: texts, maxRetries: 0 });
    expect(many.embeddings).toEqual(vectors);
    expect(many.usage.tokens).toBeGreaterThan(10);
    const one = await embed({ model: embedding, value: texts[0] ?? '', maxRetries: 0 });
    expect(one.embedding).toEqual(vectors[0]);
  });

  test('LangChain: documents and a query', async () => {
    const embeddings = new OpenAIEmbeddings({
      model,
      apiKey: gateway.apiKey,
      configuration: { baseURL },
      maxRetries: 0,
    });
    const vectors = await expected(gateway, model);
    expect(await embeddings.embedDocuments(texts)).toEqual(vectors);
    expect(await embeddings.embedQuery(texts[0] ?? '')).toEqual(vectors[0]);
  });
});
