/** The way of settings from the configuration file to the listed model, which no single folder of `src` covers. */
import { expect, test } from 'vitest';
import { parseConfig } from '../../src/config/config.ts';
import { Catalog } from '../../src/core/catalog/catalog.ts';
import { toModel } from '../../src/core/catalog/configured-model.ts';
import { Endpoint, ServiceTier } from '../../src/gen/tollgate/v1/request_pb.ts';
import { costLines, sumCost, priceSheet } from '../../src/generation/price.ts';

const file = `
providers:
  p: { protocol: chat, base_url: http://x }
  i: { protocol: images, base_url: http://x }
models:
  - id: acme/large
    name: Acme Large
    description: Large.
    owned_by: acme inc
    created: 2026-05-01
    context_length: 128000
    max_output_tokens: 8192
    capabilities: { vision: true, function_call: true, reasoning: true, service_tiers: [priority] }
    pricing:
      input: 0.1
      output: 0.000001
      caching: { read: 0.07 }
      above: [{ input_tokens: 1000, input: 0.3, output: 1.1, caching: { write_1h: 2.5 } }]
    routes: [{ provider: p, model: m }]
  - id: paint
    endpoints: [/v1/images/generations, /v1/images/edits]
    pricing: { image: 0.123456789 }
    max_size: 1024x768
    routes: [{ provider: i, model: m }]
aliases: { best: acme/large }
`;

const config = parseConfig('t.yaml', file, { variables: {}, builtInIds: [] });
const catalog = new Catalog({ models: config.models.map(toModel), aliases: config.aliases }, () => true);

test('every field of the file reaches the listed model', () => {
  expect(catalog.list()).toMatchObject([
    {
      id: 'acme/large',
      name: 'Acme Large',
      description: 'Large.',
      ownedBy: 'acme inc',
      createdAt: 1_777_593_600n,
      contextLength: 128_000,
      maxOutputTokens: 8192,
      endpoints: [Endpoint.CHAT_COMPLETIONS, Endpoint.RESPONSES, Endpoint.MESSAGES, Endpoint.GEMINI],
      vision: true,
      functionCall: true,
      reasoning: true,
      serviceTiers: [ServiceTier.PRIORITY],
      available: true,
      pricing: {
        inputPicoUsd: 100_000n,
        outputPicoUsd: 1n,
        caching: { readPicoUsd: 70_000n },
        above: [
          {
            inputTokens: 1000,
            inputPicoUsd: 300_000n,
            outputPicoUsd: 1_100_000n,
            caching: { write1hPicoUsd: 2_500_000n },
          },
        ],
      },
    },
    {
      id: 'paint',
      ownedBy: 'i',
      endpoints: [Endpoint.IMAGE_GENERATIONS, Endpoint.IMAGE_EDITS],
      maxSize: '1024x768',
      pricing: { imageNanoUsd: 123_456_789n, above: [] },
    },
  ]);
  expect(catalog.list()[1]?.pricing?.caching).toBeUndefined();
});

test('a configured price is charged to the digit', () => {
  const { pricing } = catalog.resolve('best').model;
  if (pricing === undefined) throw new Error('no prices');
  const usage = { input: 10, cacheRead: 1_000_000, cacheWrite5m: 0, cacheWrite1h: 4, output: 3_000_000, images: 0 };
  // 10 × 0.1, 1,000,000 × 0.07, 4 × 0.1 (without its own price) and 3,000,000 × 0.000001 dollars per million tokens.
  expect(sumCost(costLines(usage, priceSheet(pricing, 500), 1000))).toBe(70_004_400n);
  // Above the threshold, cache reads have no own price, but cache writes for an hour have one.
  expect(sumCost(costLines(usage, priceSheet(pricing, 1001), 1000))).toBe(300_003_000n + 10_000n + 3_300_000_000n);
});
