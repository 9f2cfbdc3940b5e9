import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { stringify } from 'yaml';
import { parseConfig } from './config.ts';
import type { Variables } from './env.ts';
import { toFileSettings } from './file-settings.ts';
import { fileSchema } from './schema.ts';
import { toShownSettings } from './shown-settings.ts';
import type { Config } from './settings.ts';

const builtInIds = ['sim/small'];
const read = (text: string, variables: Variables = {}): Config => parseConfig('', text, { variables, builtInIds });

/** Every optional part of the file. */
const everything = `
public_url: https://gateway.example
shutdown_grace: 0s
cors_origins: ["*"]
timeouts: { connect: 1500ms, total: 2h }
tls: { cert: a.pem, key: b.pem }
rpc: { tls: { cert: a.pem, key: b.pem, client_ca: c.pem }, admin: socket, tokens: [{ name: meter, token: [one-token-of-at-least-thirty-two-characters, another-token-of-thirty-two-characters], scopes: [metering] }] }
identity_provider: { issuer: https://id.example, client_id: a, client_secret: b, people: [{ claim: email, value: a@b.c, role: operator }, { claim: email, value: "*", role: viewer, account: 1 }] }
capacity: { wait: 90s }
limits: { body_bytes: 65537, body_memory: 300MB, other_body_bytes: 4KiB }
overload: { heap: 0.905 }
ledger: { write_off_limit: 123456.123456789 }
retention: { activity: 2y, audit: 30d }
content: { response_lifetime: 90d, bodies: errors, body_lifetime: 36h }
texts: { docs: "https://x.test/{code}", support: mailto:a@b.c, community: { chat: https://y.test }, tips: { rate_limit: Wait. } }
providers:
  local: { protocol: chat, base_url: http://127.0.0.1:8000/v1, api_key: [first, second], headers: { x-own: third }, passthrough: all, concurrency: 3, queue: 5, queue_timeout: 7s, token_ids: true, timeouts: { idle: 90s } }
  painter: { protocol: images, base_url: http://127.0.0.1:8001 }
models:
  - { id: acme/large, name: Acme, description: Large., owned_by: me, created: 2026-05-01, context_length: 128000, max_output_tokens: 8192,
      capabilities: { vision: true, function_call: true, reasoning: true, service_tiers: [flex] }, strategy: fastest,
      pricing: { input: 0.3, output: 4.000001, batch: 0.5, tiers: { flex: 0.4, ultrafast: 4 }, caching: { read: 0.1, write_5m: 1.25, write_30m: 1.5, write_1h: 2, write_12h: 3 }, tools: { web_search: 0.01 }, tool_calls: 4, above: [{ input_tokens: 9, input: 1, output: 2, caching: { read: 0.2 } }] },
      routes: [{ provider: local, model: large, weight: 0.5, tiers: [flex], context_length: 4096, cost: { input: 0.1, output: 1 } }, { provider: local, model: other, priority: 2 }] }
  - { id: acme/gone, available: false, pricing: { input: 1, output: 1 } }
  - { id: acme/none:free, routes: [{ provider: local, model: none }] }
  - { id: acme/draw, endpoints: [/v1/images/generations], pricing: { image_tokens: { text_input: 5, image_input: 10, cached_input: 1.25, output: 40 } }, routes: [{ provider: painter, model: d }] }
  - { id: acme/paint, endpoints: [/v1/images/generations], max_size: 1024x1024, pricing: { image: 0.04, images: [{ size: 512x512, image: 0.02 }, { quality: high, image: 0.000000001 }] }, routes: [{ provider: painter, model: p }] }
  - { id: acme/embed, endpoints: [/v1/embeddings], capabilities: { dimensions: true }, tokenizer: cl100k_base, pricing: { input: 0.02 }, routes: [{ provider: local, model: e }] }
discovered: [{ models: ["a/*", b], pricing: { input: 1, output: 2 } }]
aliases: { large: acme/large }
plans: { core: { monthly: { price: 9.99, tokens: 1000 }, discount: 0.125, models: [acme/large] }, core_pro: { models: all } }
`;
const example = readFileSync(resolve(import.meta.dirname, '../../tollgate.example.yaml'), 'utf8');

test.each([
  ['no file', '', {}],
  ['the example', example, {}],
  ['every part of the file', everything, {}],
  ['providers of the environment', 'retries: 1', { OPENAI_API_KEY: 'a', GEMINI_API_KEY: 'b', OLLAMA_HOST: 'here' }],
])('the settings of %s, read as a file, give the same configuration', (_, text, variables) => {
  const config = read(text, variables);
  const providers = config.providers.map(({ preset: _preset, ...provider }) => provider);
  const shown = stringify(toShownSettings(config)).replaceAll(/^ +preset: .*\n/gm, '');
  expect(read(shown)).toEqual({ ...config, providers });
});

test('every key of the file has its value', () => {
  expect(Object.keys(toFileSettings(read(everything))).sort()).toEqual(Object.keys(fileSchema.out.def.shape).sort());
});

test('values have the units that people write', () => {
  expect(toShownSettings(read(everything))).toMatchObject({
    shutdown_grace: '0s',
    timeouts: { connect: '1500ms', first_event: '5m', idle: '2m', total: '2h' },
    limits: { body_bytes: '65537B', body_memory: '300MB', other_body_bytes: '4KiB', answer_bytes: '128MiB' },
    overload: { heap: 0.905 },
    ledger: { write_off_limit: 123_456.123456789 },
    retention: { activity: '730d', audit: '30d' },
    content: { max_bytes: '10GiB', response_lifetime: '90d', body_lifetime: '36h' },
    providers: { local: { api_key: ['***', '***'], headers: { 'x-own': '***' }, concurrency: 3 } },
    plans: { core: { monthly: { price: 9.99 }, discount: 0.125, models: ['acme/large'] }, core_pro: { models: 'all' } },
  });
});

test('any amount, time, size and share is read again as the same', () => {
  const integer = (min: number, max: number) => fc.integer({ min, max });
  const price = fc.bigInt({ min: 0n, max: 10n ** 12n });
  const values = fc.tuple(integer(1, 604_800_000), integer(1024, 2 ** 30), integer(0, 1000), price, price);
  fc.assert(
    fc.property(values, ([idleMs, upstreamEventBytes, heapPermille, inputPicoUsd, writeOffMaxNanoUsd]) => {
      const base = read(everything);
      const [model, ...models] = base.models;
      const config = {
        ...base,
        timeouts: { ...base.timeouts, idleMs },
        limits: { ...base.limits, upstreamEventBytes },
        overload: { ...base.overload, heapPermille },
        ledger: { ...base.ledger, writeOffMaxNanoUsd },
        models: [
          ...(model === undefined ? [] : [{ ...model, pricing: { ...model.pricing, inputPicoUsd } }]),
          ...models,
        ],
      };
      expect(read(stringify(toShownSettings(config)))).toEqual(config);
    }),
    { numRuns: 50 },
  );
});
