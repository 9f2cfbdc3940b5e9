import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { ConfigError } from './config-error.ts';
import { parseConfig, loadConfig } from './config.ts';
import type { Variables } from './env.ts';
import type { Config } from './settings.ts';

const builtInIds = ['sim/text', 'sim/text:free'];
const read = (text: string, variables: Variables = {}): Config =>
  parseConfig('t.yaml', text, { variables, builtInIds });

function listProblems(text: string, variables: Variables = {}): readonly string[] {
  try {
    read(text, variables);
  } catch (error) {
    if (error instanceof ConfigError) return error.lines;
    throw error;
  }
  return [];
}

/** The example of docs/configuration.md "The file". */
const decided = `
public_url: https://gateway.example          # default: http://HOST:PORT of the public listener
shutdown_grace: 30s
cors_origins: []                             # off by default
trusted_proxies: [127.0.0.1, "10.0.0.0/8", "2001:db8::/32"]
metrics: internal                            # or public
strict: false
expose_route: false
daily_limit_unit: dollars                    # or requests
timeouts: { connect: 10s, first_event: 300s, idle: 120s, total: 3600s }
retries: 2
simulator: { enabled: true, tokens_per_second: 200, steering: true }
providers:
  local: { protocol: chat, base_url: http://127.0.0.1:8000/v1, api_key: "\${LOCAL_KEY}" }
models:
  - id: acme/large
    name: Acme Large
    context_length: 128000
    max_output_tokens: 8192
    endpoints: [/v1/chat/completions, /v1/responses, /v1/messages]
    capabilities: { vision: true, function_call: true, reasoning: true, service_tiers: [flex, priority] }
    pricing: { input: 1.00, output: 4.00, caching: { read: 0.10, write_5m: 1.25, write_1h: 2.00 }, above: [] }
    routes: [{ provider: local, model: large-v1, priority: 1, weight: 1 }]
aliases: { large: acme/large }
plans:
  core: { biweekly: { price: 6.99, tokens: 15000000 }, monthly: { price: 15.99, tokens: 35000000 }, free_daily_requests: 50, discount: 0, models: all }
`;

test('the example of the configuration page is read exactly', () => {
  const config = read(decided, { LOCAL_KEY: 'canary' });
  expect(config.models).toEqual([
    {
      id: 'acme/large',
      name: 'Acme Large',
      description: '',
      ownedBy: 'acme',
      createdAt: 0,
      contextLength: 128_000,
      maxOutputTokens: 8192,
      endpoints: ['/v1/chat/completions', '/v1/responses', '/v1/messages'],
      vision: true,
      functionCall: true,
      reasoning: true,
      serviceTiers: ['flex', 'priority'],
      available: true,
      pricing: {
        inputPicoUsd: 1_000_000n,
        outputPicoUsd: 4_000_000n,
        caching: { readPicoUsd: 100_000n, write5mPicoUsd: 1_250_000n, write1hPicoUsd: 2_000_000n },
        above: [],
      },
      maxSize: '',
      routes: [{ provider: 'local', model: 'large-v1', priority: 1, weight: 1 }],
    },
  ]);
  expect([...config.aliases]).toEqual([['large', 'acme/large']]);
  expect(config.publicUrl).toBe('https://gateway.example');
  expect(config.providers[0]?.apiKeys.map(key => key.reveal())).toEqual(['canary']);
  expect(JSON.stringify(config, (_, value) => (typeof value === 'bigint' ? String(value) : value))).not.toContain(
    'canary',
  );
});

test('an empty file and no file give the documented defaults', () => {
  const { models, providers, aliases, ...rest } = read('');
  expect([models, providers, [...aliases]]).toEqual([[], [], []]);
  expect(rest).toEqual({
    file: 't.yaml',
    discovered: [],
    rpc: {
      admin: 'everywhere',
      controlBytes: 1024 ** 2,
      messageElements: 100_000,
      open: { bytesMax: 4096, callsMax: 256, durationMs: 600_000, perAddressMax: 32 },
      tokens: [],
    },
    shutdownGraceMs: 30_000,
    capacity: { waitMs: 30_000 },
    ledger: { settleTimeoutMs: 10_000, writeOffMaxNanoUsd: 10_000_000_000n },
    batches: { concurrency: 8, fileBytes: 200_000_000, diskBytes: 20 * 1024 ** 3 },
    content: {
      bytesMax: 10 * 1024 ** 3,
      replayBytesMax: 2 * 1024 ** 3,
      responseLifetimeMs: 30 * 24 * 3_600_000,
      bodies: 'off',
      bodyBytesMax: 256 * 1024,
      bodyLifetimeMs: 7 * 24 * 3_600_000,
    },
    keepAliveMs: 15_000,
    corsOrigins: [],
    trustedProxies: [],
    metrics: 'internal',
    logLevel: 'info',
    strict: false,
    exposeRoute: false,
    dailyLimitUnit: 'dollars',
    timeouts: { connectMs: 10_000, firstEventMs: 300_000, idleMs: 120_000, totalMs: 3_600_000 },
    retries: 2,
    retention: { activityMs: 400 * 86_400_000, auditMs: 7 * 365 * 86_400_000 },
    webhooks: { allowPrivate: false },
    limits: {
      bodyBytes: 67_108_864,
      otherBodyBytes: 1_048_576,
      bodyDepth: 512,
      bodyValues: 100_000,
      listEntries: 10_000,
      bodyMemoryBytes: 268_435_456,
      accountBodyMemoryBytes: 134_217_728,
      memoryWaitMs: 10_000,
      parseMemoryBytes: 536_870_912,
      parseMs: 10_000,
      stallMs: 60_000,
      unsentMemoryBytes: 268_435_456,
      sessionMemoryBytes: 268_435_456,
      accountSessionMemoryBytes: 67_108_864,
      runningChoices: 20_000,
      accountRunningChoices: 10_000,
      addressRequests: 256,
      answerBytes: 134_217_728,
      wholeAnswerBytes: 67_108_864,
      upstreamEventBytes: 67_108_864,
      imageFileBytes: 10_737_418_240,
      imageTasks: 8,
      imageTaskQueue: 1_000,
    },
    overload: { loopLagMs: 300, heapPermille: 850, sliceMs: 2, queue: 1_000 },
    texts: { tips: {} },
    simulator: { enabled: true, tokensPerSecond: 200, steering: true },
    plans: {
      core: {
        biweekly: { priceNanoUsd: 6_990_000_000n, tokens: 15_000_000 },
        monthly: { priceNanoUsd: 15_990_000_000n, tokens: 35_000_000 },
        freeDailyRequests: 50,
        discountPermille: 0,
        models: null,
      },
      core_pro: {
        biweekly: { priceNanoUsd: 12_990_000_000n, tokens: 28_000_000 },
        monthly: { priceNanoUsd: 34_990_000_000n, tokens: 80_000_000 },
        freeDailyRequests: 150,
        discountPermille: 50,
        models: null,
      },
    },
  });
});

test('a section whose entries are all commented out is an absent one', () => {
  expect(read('models:\n# - id: a/b\naliases:\ntimeouts:\nproviders: ~\n')).toEqual(read(''));
});

test('a configuration is frozen recursively', () => {
  const config = read(decided, { LOCAL_KEY: 'k' });
  for (const part of [
    config,
    config.models,
    config.models[0]?.routes,
    config.plans.core.monthly,
    config.providers[0],
  ]) {
    expect(Object.isFrozen(part)).toBe(true);
  }
});

test('texts are kept as written, community links by name, tips by code', () => {
  const { texts } = read(
    'texts:\n  docs: https://x.example/errors#{code}\n  support: mailto:a@x.example\n  community: { Chat: https://c.example }\n' +
      '  tips: { insufficient_balance: Top up at https://x.example. }\n',
  );
  expect(texts).toEqual({
    docs: 'https://x.example/errors#{code}',
    support: 'mailto:a@x.example',
    community: { Chat: 'https://c.example' },
    tips: { insufficient_balance: 'Top up at https://x.example.' },
  });
});

describe('providers', () => {
  const provider = (text: string, variables: Variables = {}) =>
    read(`providers:\n  p: ${text}\n`, variables).providers[0];

  test('have one key or a list, headers, timeouts that replace the general ones, a concurrency limit with its queue', () => {
    const config = read(
      `timeouts: { idle: 1m }\nproviders:\n  p:\n    protocol: messages\n    base_url: https://api.example/\n` +
        '    api_key: [a, "${B}"]\n    headers: { X-Team: "${T}" }\n    timeouts: { connect: 500ms }\n' +
        '    concurrency: 4\n    queue: 0\n    queue_timeout: 2s\n',
      { B: 'b', T: 'blue' },
    );
    expect(config.providers[0]).toMatchObject({
      name: 'p',
      protocol: 'messages',
      baseUrl: 'https://api.example',
      timeouts: { connectMs: 500, firstEventMs: 300_000, idleMs: 60_000, totalMs: 3_600_000 },
      concurrency: { slots: 4, waitersMax: 0, waitMs: 2000 },
    });
    expect(config.providers[0]?.apiKeys.map(key => key.reveal())).toEqual(['a', 'b']);
    expect(config.providers[0]?.headers['x-team']?.reveal()).toBe('blue');
  });

  test('a key that looks like a number is a text', () => {
    expect(provider('{ protocol: chat, base_url: http://x, api_key: 0123 }')?.apiKeys[0]?.reveal()).toBe('0123');
    const plain = 'protocol: chat\n    base_url: http://x\n    api_key: ${K}';
    expect(provider(`\n    ${plain}`, { K: '12' })?.apiKeys[0]?.reveal()).toBe('12');
  });
});

describe('the environment', () => {
  test('a variable in a plain scalar is parsed as YAML, in a quoted one it stays a text', () => {
    expect(read('retries: ${N}', { N: '5' }).retries).toBe(5);
    expect(read('strict: ${S}', { S: 'true' }).strict).toBe(true);
    expect(listProblems('retries: "${N}"', { N: '5' })).toEqual([
      't.yaml:1: retries: must be a whole number from 0 to 100',
    ]);
  });

  test('a variable can stand inside a text and be escaped', () => {
    const { models } = read(
      'models: [{ id: a/b, name: "x ${A} $${A}", available: false, pricing: { input: 0, output: 0 } }]',
      { A: '1' },
    );
    expect(models[0]?.name).toBe('x 1 ${A}');
  });

  test('the value of a variable can’t add YAML to the file', () => {
    const lines = listProblems('strict: ${S}', { S: 'true\nretries: 7' });
    expect(lines).toEqual(['t.yaml:1: strict: must be true or false']);
  });

  test('an unset variable is reported once, with its place', () => {
    expect(
      listProblems('providers:\n  p:\n    protocol: chat\n    base_url: ${WHERE}\n    api_key: "${KEY}"\n'),
    ).toEqual([
      't.yaml:4: providers.p.base_url: reads the environment variable WHERE, which is not set',
      't.yaml:5: providers.p.api_key: reads the environment variable KEY, which is not set',
    ]);
  });

  test('names of Object.prototype are no variables', () => {
    expect(listProblems('public_url: "${constructor}"')[0]).toContain('constructor, which is not set');
  });

  test.each(['"${"', '"${A B}"', '"${}"', '"${1}"'])('%s is no reference to a variable', text => {
    expect(listProblems(`public_url: ${text}`)[0]).toContain('must have the name of an environment variable');
  });
});

/** A file with one model made of these lines. */
const model = (...lines: string[]): string =>
  [
    'providers:',
    '  p: { protocol: chat, base_url: http://x }',
    '  i: { protocol: images, base_url: http://x }',
    'models:',
  ]
    .concat(lines.map((line, index) => `${index === 0 ? '  - ' : '    '}${line}`))
    .join('\n');
const routed = 'routes: [{ provider: p, model: m }]';
const priced = 'pricing: { input: 1, output: 2 }';

describe('models', () => {
  test('a text model needs an id, prices and a route, and then has all text paths', () => {
    expect(read(model('id: large', priced, routed)).models[0]).toMatchObject({
      name: 'large',
      ownedBy: 'p',
      endpoints: ['/v1/chat/completions', '/v1/responses', '/v1/messages', '/v1beta/models/{model}:generateContent'],
    });
  });

  test('an image model needs id, paths, a price and a route', () => {
    const text = model(
      'id: acme/paint',
      'endpoints: [/v1/images/generations, /v1/images/edits]',
      'pricing: { image: 0.04 }',
      'routes: [{ provider: i, model: paint }]',
      'max_size: 2048x2048',
    );
    expect(read(text).models[0]).toMatchObject({
      pricing: { imageNanoUsd: 40_000_000n, above: [] },
      maxSize: '2048x2048',
    });
  });

  test('a free model costs 0 with and without a price', () => {
    const zero = { inputPicoUsd: 0n, outputPicoUsd: 0n, above: [] };
    expect(read(model('id: a/b:free', routed)).models[0]?.pricing).toEqual(zero);
    expect(read(model('id: a/b:free', 'pricing: { input: 0, output: 0.00 }', routed)).models[0]?.pricing).toEqual(zero);
  });

  test('a price of 0 is a price, also without the suffix :free', () => {
    expect(read(model('id: a/b', 'pricing: { input: 0, output: 0 }', routed)).models[0]?.pricing.inputPicoUsd).toBe(0n);
  });

  test('prices above a threshold are kept, a missing caching there is none', () => {
    const above = 'above: [{ input_tokens: 200000, input: 0.000001, output: 5 }]';
    const { pricing } = read(
      model('id: a/b', `pricing: { input: 1, output: 2, caching: { read: 0 }, ${above} }`, routed),
    ).models[0] ?? { pricing: undefined };
    expect(pricing).toEqual({
      inputPicoUsd: 1_000_000n,
      outputPicoUsd: 2_000_000n,
      caching: { readPicoUsd: 0n },
      above: [{ inputTokens: 200_000, inputPicoUsd: 1n, outputPicoUsd: 5_000_000n }],
    });
  });

  test('a day and seconds are the same moment', () => {
    expect(read(model('id: a/b', 'created: 2026-05-01', priced, routed)).models[0]?.createdAt).toBe(1_777_593_600);
    expect(read(model('id: a/b', 'created: 1777593600', priced, routed)).models[0]?.createdAt).toBe(1_777_593_600);
  });
});

describe('which file is read', () => {
  const folder = mkdtempSync(join(tmpdir(), 'tollgate-config-'));
  afterAll(() => rmSync(folder, { recursive: true, force: true }));
  const one = join(folder, 'one.yaml');
  const two = join(folder, 'two.yaml');
  writeFileSync(one, 'retries: 1');
  writeFileSync(two, 'retries: 2');
  const load = (path: string | undefined, configPath?: string): Config =>
    loadConfig({
      ...(path === undefined ? {} : { path }),
      environment: { variables: {}, ...(configPath === undefined ? {} : { configPath }) },
      builtInIds,
    });

  test('the command line takes precedence over the environment', () => {
    expect([load(one, two).retries, load(undefined, two).retries]).toEqual([1, 2]);
    expect(load(one).file).toBe(one);
  });

  test('without a name and without ./tollgate.yaml there are the defaults', () => {
    // Tests run in the checkout, which has no tollgate.yaml.
    expect(load(undefined)).toEqual({ ...parseConfig('', '', { variables: {}, builtInIds }) });
    expect(load(undefined).file).toBeUndefined();
  });

  test.each([
    [join(folder, 'none.yaml'), undefined],
    [undefined, join(folder, 'none.yaml')],
  ])('a named file that does not exist is an error (%s, %s)', (path, configPath) => {
    expect(() => load(path, configPath)).toThrow(`${join(folder, 'none.yaml')}: can't be read: does not exist`);
  });

  test('a folder is no file', () => {
    expect(() => load(folder)).toThrow(`${folder}: can't be read`);
  });
});
