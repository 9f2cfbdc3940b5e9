/**
 * Every official client with every upstream protocol: each feature, streamed and not, with the client's library on one side and a real HTTP upstream on the other
 * (a second gateway with built-in models; for Gemini a server written from the public schema). A test prints the results as a table, in which no cell may be missing.
 */
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { makePng } from '../e2e/sample-image.ts';
import { endGateway, type Gateway } from '../gateway.ts';
import { startGateway } from '../hosted-gateway.ts';
import { basePaths, type TextProtocol, textProtocols } from '../upstreams/text-protocol.ts';
import { signatureTests } from './gemini-signature-suite.ts';
import { geminiKey, GeminiServer } from './gemini-server.ts';
import {
  type Question,
  chatClient,
  geminiClient,
  type Got,
  type MatrixClient,
  messagesClient,
  responsesClient,
} from './matrix-clients.ts';

const schema = {
  type: 'object',
  properties: { name: { type: 'string' }, minutes: { type: 'integer', minimum: 1 } },
  required: ['name', 'minutes'],
  additionalProperties: false,
};

interface Feature {
  /** Another model behind the upstream's protocol; absent: the usual one. */
  readonly model?: 'caching';
  ask(): Promise<Question> | Question;
  check(got: Got, goOn: (result: string) => Promise<Got>, again: () => Promise<Got>): Promise<void> | void;
}

const features: Readonly<Record<string, Feature>> = {
  text: {
    ask: () => ({ text: 'Hi\n!sim say=Good morning, Zoë 😀' }),
    check: ({ text, finish, calls, output }) => {
      expect([text, finish, calls]).toEqual(['Good morning, Zoë 😀', 'stop', []]);
      expect(output).toBeGreaterThan(3);
    },
  },
  tools: {
    ask: () => ({ text: 'Weather in Paris?\n!sim calls=1', tools: true }),
    check: async ({ calls, finish }, goOn) => {
      expect(calls.map(({ name }) => name)).toEqual(['get_weather']);
      expect(calls[0]?.args).toHaveProperty('city');
      expect(finish).toBe('tool_calls');
      const next = await goOn('Sunny in Paris');
      expect([next.finish, next.calls]).toEqual(['stop', []]);
      expect(next.text).toContain('Sunny');
    },
  },
  'parallel tools': {
    ask: () => ({ text: 'Weather in Paris, Oslo and Rome?\n!sim calls=3 say=I will look.', tools: true }),
    check: async ({ text, calls, finish }, goOn) => {
      expect([text, finish]).toEqual(['I will look.', 'tool_calls']);
      expect(calls.map(({ name }) => name)).toEqual(['get_weather', 'get_weather', 'get_weather']);
      expect(new Set(calls.map(({ id }) => id)).size).toBe(3);
      expect((await goOn('Sunny')).finish).toBe('stop');
    },
  },
  images: {
    ask: async () => ({
      text: 'What is in this image?',
      image: (await makePng(64, 48, '#ff0000')).toString('base64'),
    }),
    check: ({ text }) => {
      expect(text).toMatch(/64\s*[x×]\s*48/);
      expect(text).toMatch(/red/i);
    },
  },
  reasoning: {
    ask: () => ({ text: 'Why is the sky blue?\n!sim tokens=60', reasoning: true }),
    check: ({ text, reasoningText, finish }) => {
      expect(reasoningText).not.toBe('');
      expect(text).not.toBe('');
      expect(finish).toBe('stop');
    },
  },
  json_schema: {
    ask: () => ({ text: 'A recipe for stew.', schema }),
    check: ({ text, finish }) => {
      expect(finish).toBe('stop');
      const answer = JSON.parse(text) as { name: unknown; minutes: unknown };
      expect([typeof answer.name, Number.isInteger(answer.minutes)]).toEqual(['string', true]);
    },
  },
  cache: {
    model: 'caching',
    // The beginning of the prompt differs in every cell, so that only the first request of the cell can have filled the cache.
    ask: () => ({
      text: 'And?\n!sim say=Yes.',
      system: `${randomUUID()} ${'Toll gates are everywhere. '.repeat(600)}`,
    }),
    check: async ({ cached }, _, again) => {
      expect(cached).toBe(0);
      expect((await again()).cached).toBeGreaterThan(1_000);
    },
  },
  stop: {
    ask: () => ({ text: 'Go.\n!sim say=one two three', stop: 'two' }),
    check: ({ text, finish }) => expect([text, finish]).toEqual(['one ', 'stop']),
  },
  length: {
    ask: () => ({ text: 'Go on.\n!sim tokens=200', limit: 20 }),
    check: ({ finish, output }) => expect([finish, output]).toEqual(['length', 20]),
  },
  refusal: {
    ask: () => ({ text: 'Go.\n!sim finish=refusal' }),
    check: ({ finish }) => expect(finish).toBe('content_filter'),
  },
};

const ways = ['whole', 'streamed'] as const;
const clientNames = ['Chat', 'Responses', 'Messages', 'Gemini'] as const;

let inner: Gateway;
let server: GeminiServer;
let gateway: Gateway;
let clients: Readonly<Record<string, MatrixClient>>;
beforeAll(async () => {
  inner = await startGateway({ config: 'simulator: { tokens_per_second: 0 }\n', balance: '100' });
  server = await GeminiServer.start(inner);
  gateway = await startGateway({ config: config(), environment: { INNER_KEY: inner.apiKey } });
  clients = {
    Chat: chatClient(gateway),
    Responses: responsesClient(gateway),
    Messages: messagesClient(gateway),
    Gemini: geminiClient(gateway),
  };
});
afterAll(async () => {
  await endGateway(gateway);
  await server.stop();
  await endGateway(inner);
});

function config(): string {
  const upstreamModel = (name: string, kind: string): string => {
    if (name === 'gemini') return kind === 'usual' ? 'gemini-3-flash' : 'gemini-2.5-flash-lite';
    return kind === 'usual' ? 'sim/large' : 'sim/small';
  };
  const model = (name: string, kind: string): string => `
  - id: ${name}/${kind}
    max_output_tokens: 16384
    context_length: 128000
    endpoints: [/v1/chat/completions, /v1/responses, /v1/messages, "/v1beta/models/{model}:generateContent"]
    capabilities: { vision: true, function_call: true, reasoning: true }
    pricing: { input: 1, output: 4, caching: { read: 0.1, write_5m: 1.25, write_1h: 2 } }
    routes: [{ provider: ${name}, model: ${upstreamModel(name, kind)} }]`;
  const provider = (name: TextProtocol): string =>
    name === 'gemini'
      ? `  gemini: { protocol: gemini, base_url: "${server.baseUrl}", api_key: ${geminiKey} }`
      : `  ${name}: { protocol: ${name}, base_url: "${inner.url}${basePaths[name]}", api_key: "\${INNER_KEY}" }`;
  return `
simulator: { enabled: false }
retries: 0
providers:
${textProtocols.map(provider).join('\n')}
models:${textProtocols.map(name => model(name, 'usual') + model(name, 'caching')).join('')}
`;
}

/** Cells that are impossible: a feature that a client, or an upstream's protocol, does not have. */
interface Impossible {
  /** Absent: with every client. */
  readonly client?: string;
  /** Absent: with every upstream. */
  readonly upstream?: string;
  readonly feature: string;
  readonly because: string;
}
const impossible: readonly Impossible[] = [
  { client: 'Responses', feature: 'stop', because: 'Responses has no stop sequences' },
];
const isImpossible = (cell: {
  readonly client: string;
  readonly upstream: string;
  readonly feature: string;
}): boolean =>
  impossible.some(
    ({ client = cell.client, upstream = cell.upstream, feature }) =>
      client === cell.client && upstream === cell.upstream && feature === cell.feature,
  );

/** The result of each cell: undefined until it has run. */
const cells = new Map<string, 'ok' | 'failed'>();
const toKey = (...names: readonly string[]): string => names.join(' | ');
const all = clientNames.flatMap(client =>
  textProtocols.flatMap(upstream =>
    ways.flatMap(way => Object.keys(features).map(feature => ({ client, upstream, way, feature }))),
  ),
);

describe.each(clientNames)('a client of %s', client => {
  describe.each(textProtocols)('through an upstream of %s', upstream => {
    describe.each(ways)('%s', way => {
      test.each(Object.entries(features).filter(([feature]) => !isImpossible({ client, upstream, feature })))(
        '%s',
        async (feature, { ask, check, model = 'usual' }) => {
          cells.set(toKey(client, upstream, way, feature), 'failed');
          const question = await ask();
          const run = () =>
            clients[client]?.ask(`${upstream}/${model}`, question, way === 'streamed') ?? expect.fail('no such client');
          const { got, goOn } = await run();
          await check(got, goOn, async () => (await run()).got);
          cells.set(toKey(client, upstream, way, feature), 'ok');
        },
      );
    });
  });
});

test('every cell has a result', () => {
  const columns = clientNames.flatMap(client =>
    textProtocols.flatMap(upstream => ways.map(way => [client, upstream, way])),
  );
  const rows = Object.keys(features).map(feature => [
    feature,
    ...columns.map(column => cells.get(toKey(...column, feature)) ?? '–'),
  ]);
  const heads = [0, 1, 2].map(line => ['', ...columns.map(column => column[line] ?? '')]);
  const lines = [...heads, ...rows].map(row => row.map((cell, index) => cell.padEnd(index === 0 ? 15 : 9)).join(' '));
  process.stdout.write(`\n${lines.join('\n')}\n`);
  for (const { client, upstream, feature, because } of impossible) {
    process.stdout.write(`– ${client ?? upstream}, ${feature}: ${because}\n`);
  }
  // Every client sent the signatures back, and none disabled the check.
  expect(JSON.stringify(server.requests)).not.toContain('skip_thought_signature_validator');
  expect(cells.size).toBe(all.filter(cell => !isImpossible(cell)).length);
});

describe('signatures of Gemini’s calls', () => {
  signatureTests(() => ({ gateway, server, model: 'gemini/usual' }));
});
