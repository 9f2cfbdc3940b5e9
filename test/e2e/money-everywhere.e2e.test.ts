/** Money over all endpoints, in any order and with any outcome: the usage of the answer, its header, the record, its receipt and the balance agree to the nano-dollar. */
import fc from 'fast-check';
import { afterAll, expect, test } from 'vitest';
import { readBalance, endGateway, heldBy } from '../gateway.ts';
import { startGateway } from '../hosted-gateway.ts';

const gateway = await startGateway({ config: 'simulator: { tokens_per_second: 0 }\nretries: 0\n', balance: '9' });
afterAll(() => endGateway(gateway));

interface PaidRequest {
  readonly path: string;
  readonly body: object;
}

interface Receipt {
  readonly cost: number;
  readonly written_off: number;
  readonly state: string;
  readonly buckets: { kind: string; tokens: number; price: number; multiplier: number; cost: number }[];
}

const word = fc.constantFrom('gate', 'toll', 'Straße', '橋', 'a much longer piece of text than the others');
const text = fc.array(word, { minLength: 1, maxLength: 30 }).map(words => words.join(' '));
const steeringLine = fc.constantFrom(
  '',
  '\n!sim tokens=7',
  '\n!sim say=done',
  '\n!sim status=500',
  '\n!sim tokens=3 usage=none',
);
const prompt = fc.tuple(text, steeringLine).map(([said, line]) => said + line);
const message = (content: string): object[] => [{ role: 'user', content }];

/** Generates requests without background work, on all paths that cost money. */
const requested: fc.Arbitrary<PaidRequest> = fc.oneof(
  prompt.map(said => ({
    path: '/v1/chat/completions',
    body: { model: 'sim/large:flex', messages: message(said), max_tokens: 40 },
  })),
  prompt.map(input => ({ path: '/v1/responses', body: { model: 'sim/large', input, max_output_tokens: 40 } })),
  prompt.map(said => ({ path: '/v1/messages', body: { model: 'sim/small', messages: message(said), max_tokens: 40 } })),
  prompt.map(said => ({
    path: '/v1beta/models/sim/large:flex:generateContent',
    body: { contents: [{ role: 'user', parts: [{ text: said }] }], generationConfig: { maxOutputTokens: 40 } },
  })),
  fc.array(prompt, { minLength: 1, maxLength: 5 }).map(inputs => ({
    path: '/v1beta/models/sim/embed:batchEmbedContents',
    body: { requests: inputs.map(input => ({ content: { parts: [{ text: input }] } })) },
  })),
  fc
    .tuple(fc.array(prompt, { minLength: 1, maxLength: 3 }), fc.integer({ min: 1, max: 3 }), fc.boolean())
    .map(([prompts, n, echo]) => ({
      path: '/v1/completions',
      body: { model: 'sim/small', prompt: prompts, n, echo, max_tokens: 40 },
    })),
  fc
    .array(prompt, { minLength: 1, maxLength: 5 })
    .map(input => ({ path: '/v1/embeddings', body: { model: 'sim/embed', input } })),
  fc.tuple(prompt, fc.integer({ min: 1, max: 250 })).map(([query, count]) => ({
    path: '/v1/rerank',
    body: { model: 'sim/rerank', query, documents: Array.from({ length: count }, (_, at) => `document ${at}`) },
  })),
  fc.tuple(text, fc.integer({ min: 1, max: 2 })).map(([said, n]) => ({
    path: '/v1/images/generations',
    body: { model: 'sim/image', prompt: said, size: '64x64', n },
  })),
);

const toNano = (dollars: number): bigint => BigInt(Math.round(dollars * 1e9));

async function ask({ path, body }: PaidRequest): Promise<{ response: Response; shownCost: number | undefined }> {
  const response = await fetch(`${gateway.url}${path}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${gateway.apiKey}`, 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
  const answer = (await response.json()) as { usage?: { cost?: number }; usageMetadata?: { cost?: number } };
  return { response, shownCost: (answer.usage ?? answer.usageMetadata)?.cost };
}

async function readReceipt(response: Response): Promise<Receipt> {
  const id = response.headers.get('x-request-id') ?? response.headers.get('request-id');
  const read = await fetch(`${gateway.url}/v1/account/activity/${id}`, {
    headers: { authorization: `Bearer ${gateway.managementKey}` },
  });
  return (await read.json()) as Receipt;
}

test('usage, header, record, receipt and balance agree on every path', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(requested, { minLength: 1, maxLength: 6 }), async requests => {
      for (const each of requests) {
        const before = await readBalance(gateway);
        const { response, shownCost } = await ask(each);
        const debited = before - (await readBalance(gateway));
        const receipt = await readReceipt(response);
        expect(toNano(receipt.cost)).toBe(debited);
        if (response.status === 200) {
          expect(toNano(Number(response.headers.get('x-tollgate-cost')))).toBe(debited);
          if (shownCost !== undefined) expect(toNano(shownCost)).toBe(debited);
          expect(debited > 0n).toBe(true);
        } else {
          expect([response.status, debited, receipt.state]).toEqual([502, 0n, 'upstream_failed']);
        }
        // The cost of each bucket, then their sum.
        for (const { kind, tokens, price, multiplier, cost } of receipt.buckets) {
          const isPiece = kind === 'image' || kind === 'search';
          expect(cost).toBeCloseTo((tokens * price * multiplier) / (isPiece ? 1 : 1e6), 12);
        }
        const sum = receipt.buckets.reduce((all, { cost }) => all + cost, 0);
        expect(sum).toBeCloseTo(receipt.cost + receipt.written_off, 8);
        expect(await heldBy(gateway)).toBe(0n);
      }
    }),
    { numRuns: 12 },
  );
});
