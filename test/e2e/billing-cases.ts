/** Random requests with members that may cost, and the comparison of what is charged with what a provider bills. */
import { expect } from 'vitest';
import { endGateway } from '../gateway.ts';
import { startGateway } from '../hosted-gateway.ts';
import { call, newAccount, newKey, type RecordDetailJson } from './account-client.ts';
import { ExactBiller, callPrice, makePick, type Pick, price, tierFactors } from './exact-biller.ts';
import type { Json } from './scripted-upstream.ts';

const paths = {
  chat: '/v1/chat/completions',
  completions: '/v1/completions',
  responses: '/v1/responses',
  messages: '/v1/messages',
  gemini: '/v1beta/models/gemini:generateContent',
  embeddings: '/v1/embeddings',
} as const;
type Protocol = keyof typeof paths;
const protocols = Object.keys(paths) as Protocol[];

/** Members of any protocol, known, unknown or of another one, with values that cost and that don't. */
const members: Readonly<Record<string, readonly unknown[]>> = {
  service_tier: ['auto', 'default', 'flex', 'priority', 'fast', 'ultrafast', 'scale', 'turbo', 'standard', 7],
  serviceTier: ['STANDARD', 'flex', 'priority', 'ultrafast', 'turbo'],
  n: [1, 2, 3],
  best_of: [1, 5, '4'],
  use_beam_search: [true, false],
  num_beams: [1, 8],
  num_return_sequences: [2],
  generation_config: [{ num_beams: 4 }, { best_of: 1 }],
  parameters: [{ best_of: 3 }],
  generationConfig: [
    { candidateCount: 2 },
    { responseModalities: ['IMAGE'] },
    { responseModalities: ['TEXT'] },
    { speechConfig: {} },
    { imageConfig: {} },
    { routingConfig: {} },
  ],
  speed: ['fast', 'standard', 'warp'],
  inference_geo: ['us', 'global'],
  modalities: [['text'], ['text', 'audio']],
  audio: [{ voice: 'x' }],
  plugins: [[{ id: 'web' }]],
  search_parameters: [{ mode: 'on' }],
  web_search_options: [{}],
  cachedContent: ['cachedContents/x', ''],
  container: [{ skills: [] }],
  data_sources: [[{ type: 'x' }]],
  billing_policy: [{ type: 'x' }],
  completion_window: ['24h'],
  fallbacks: [[{ model: 'y' }]],
  models: [['y']],
  cache_control: [{ type: 'ephemeral' }, { type: 'ephemeral', ttl: '1h' }, { type: 'ephemeral', ttl: '5m' }],
  prompt_cache_options: [{ ttl: '30m' }, { ttl: '12h' }, { mode: 'implicit' }],
  documents: [['some', 'text']],
  seed: [3],
  user: ['u'],
  metadata: [{ a: 'b' }],
  tools: [
    [{ type: 'web_search' }],
    [{ type: 'web_search_20250305', name: 'web_search' }],
    [{ googleSearch: {} }],
    [{ google_search: {}, code_execution: {} }],
    [{ type: 'code_execution_20260120', name: 'code_execution' }],
    [{ type: 'file_search', vector_store_ids: ['v'] }],
    [{ type: 'image_generation' }],
    [{ type: 'advisor_20260301', name: 'advisor' }],
    [{ googleMaps: {} }],
  ],
};
const memberNames = Object.keys(members);

function makeBody(protocol: Protocol, word: string, pick: Pick): Json {
  const turns = [{ role: 'user', content: word }];
  const bodies: Readonly<Record<Protocol, Json>> = {
    chat: { messages: turns },
    completions: { prompt: word },
    responses: { input: word },
    messages: { messages: turns, max_tokens: 100 },
    gemini: { contents: [{ role: 'user', parts: [{ text: word }] }] },
    embeddings: { input: word },
  };
  const body: Json = { ...(protocol === 'gemini' ? {} : { model: protocol }), ...bodies[protocol] };
  for (let left = pick(3); left > 0; left -= 1) {
    const name = memberNames[pick(memberNames.length - 1)] ?? '';
    const values = members[name] ?? [];
    body[name] = values[pick(values.length - 1)];
  }
  return body;
}

function makeConfig(url: string): string {
  const { input, output, read, write5m, write30m, write1h, write12h } = price;
  const caching = `caching: { read: ${read}, write_5m: ${write5m}, write_30m: ${write30m}, write_1h: ${write1h}, write_12h: ${write12h} }`;
  const pricing = `pricing: { input: ${input}, output: ${output}, ${caching}, tiers: ${JSON.stringify(tierFactors)}, tools: ${JSON.stringify(callPrice)} }`;
  const text =
    'context_length: 1000000, max_output_tokens: 10000, capabilities: { function_call: true, service_tiers: [flex, priority] },';
  const model = (id: string, provider: string, more = ''): string =>
    `  - { id: ${id}, ${text} ${more} ${pricing}, routes: [{ provider: ${provider}, model: m }] }`;
  return [
    'simulator: { enabled: false }',
    'providers:',
    `  chat: { protocol: chat, base_url: "${url}/v1", api_key: k }`,
    `  responses: { protocol: responses, base_url: "${url}/v1", api_key: k }`,
    `  messages: { protocol: messages, base_url: "${url}", api_key: k }`,
    `  gemini: { protocol: gemini, base_url: "${url}", api_key: k }`,
    'models:',
    ...['chat', 'responses', 'messages', 'gemini'].map(name => model(name, name)),
    model('completions', 'chat', 'endpoints: [/v1/completions],'),
    `  - { id: embeddings, endpoints: [/v1/embeddings], pricing: { input: ${input} }, routes: [{ provider: chat, model: m }] }`,
    '',
  ].join('\n');
}

/** How many cases ended how. */
export interface Tally {
  charged: number;
  refused: number;
  /** Charged less than the bill, and the record says what has no price. */
  unpriced: number;
}

/** Sends `cases` random requests, and throws for the first whose charge is below the provider's bill although nothing in its record says so. */
export async function runBillingCases(cases: number, seed: number): Promise<Tally> {
  const provider = await ExactBiller.start(seed);
  const gateway = await startGateway({ config: makeConfig(provider.url) });
  try {
    const { managementKey } = await newAccount(gateway, 1_000_000);
    const { key } = await newKey(gateway, {}, managementKey);
    const pick = makePick(seed);
    const tally: Tally = { charged: 0, refused: 0, unpriced: 0 };
    const runCase = async (index: number): Promise<void> => {
      const protocol = protocols[pick(protocols.length - 1)] ?? 'chat';
      const word = `case-${index}`;
      const body = makeBody(protocol, word, pick);
      const response = await fetch(gateway.url + paths[protocol], {
        method: 'POST',
        headers: { 'content-type': 'application/json', authorization: `Bearer ${key}` },
        body: JSON.stringify(body),
      });
      const answer = await response.text();
      const bill = provider.bills.get(word);
      provider.bills.delete(word);
      if (response.status !== 200) {
        const facts = JSON.stringify({ protocol, body, answer });
        expect([facts, [400, 422].includes(response.status), bill]).toEqual([facts, true, undefined]);
        tally.refused += 1;
        return;
      }
      const path = `/activity/${response.headers.get('x-request-id') ?? ''}`;
      const {
        cost,
        written_off: lost,
        unpriced,
      } = (await call<RecordDetailJson>(gateway, 'GET', path, { key: managementKey })).body;
      const charged = BigInt(Math.round((cost + lost) * 1e9));
      const billed = bill?.nanoUsd ?? 0n;
      if (unpriced.length > 0) tally.unpriced += 1;
      else {
        const facts = JSON.stringify({ protocol, body, answer });
        expect([facts, charged]).toEqual([facts, billed]);
      }
      tally.charged += 1;
    };
    const batch = 16;
    for (let from = 0; from < cases; from += batch) {
      await Promise.all(Array.from({ length: Math.min(batch, cases - from) }, (_, at) => runCase(from + at)));
    }
    return tally;
  } finally {
    provider.stop();
    await endGateway(gateway);
  }
}
