/** Rerank with Cohere's official client: against the built-in model, and through a second gateway in front of it. */
import { CohereClientV2, CohereError } from 'cohere-ai';
import { afterAll, describe, expect, test } from 'vitest';
import { endGateway } from '../gateway.ts';
import { startGateway } from '../hosted-gateway.ts';

const inner = await startGateway();
const outer = await startGateway({
  config: `
providers:
  inner: { protocol: chat, base_url: "${inner.url}/v1", api_key: "\${INNER_KEY}" }
models:
  - { id: acme/rerank, context_length: 8192, endpoints: [/v1/rerank], pricing: { search: 0.004 }, routes: [{ provider: inner, model: sim/rerank }] }
`,
  environment: { INNER_KEY: inner.apiKey },
});
afterAll(async () => {
  await endGateway(outer);
  await endGateway(inner);
});

const documents = ['Taxes are due in April.', 'Cats sleep on sofas.', 'Rain is likely.'];

describe.each([
  { name: 'directly', gateway: inner, model: 'sim/rerank' },
  { name: 'through a second gateway', gateway: outer, model: 'acme/rerank' },
])('$name', ({ gateway, model }) => {
  const cohere = new CohereClientV2({ environment: gateway.url, token: gateway.apiKey, maxRetries: 0 });

  test('returns the `topN` best documents, best first', async () => {
    const { id, results } = await cohere.rerank({ model, query: 'where cats sleep', documents, topN: 2 });
    expect(id).toMatch(/^req_/);
    expect(results).toHaveLength(2);
    expect(results[0]?.index).toBe(1);
    expect(results[0]?.relevanceScore).toBeGreaterThan(results[1]?.relevanceScore ?? 1);
  });

  test('an error names the invalid document', async () => {
    const refused = await cohere.rerank({ model, query: 'q', documents: ['a', ''] }).catch((error: unknown) => error);
    expect(refused).toBeInstanceOf(CohereError);
    expect(refused).toMatchObject({ statusCode: 422, body: { error: { param: 'documents[1]' } } });
  });
});
