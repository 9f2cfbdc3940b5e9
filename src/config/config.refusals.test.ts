import { Ajv2020 } from 'ajv/dist/2020.js';
import { describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { ConfigError } from './config-error.ts';
import { parseConfig } from './config.ts';
import type { Variables } from './env.ts';
import { configJsonSchema } from './json-schema.ts';
import { fileSchema } from './schema.ts';
import { readYaml } from './yaml-source.ts';

const isAllowed = new Ajv2020({ strict: false, allowUnionTypes: true }).compile(configJsonSchema());
/** Rules that JSON Schema can't express: decimals of numbers, bounds of spans, and rules of the file as YAML. */
const beyondSchema =
  /decimals|duration from|size from|time from|is not valid YAML|twice in one mapping|one YAML document|too deep or too large/;

/** Checks that the JSON Schema for editors refuses what the schema of the file refuses. */
function compareWithSchema(text: string, variables: Variables): void {
  const { value, problems } = readYaml('t.yaml', text, variables);
  const own = fileSchema.safeParse(value);
  // The parser for editors expands every alias.
  if (
    /: [&*]/.test(text) ||
    text.includes('${') ||
    own.success ||
    problems.length > 0 ||
    own.error.issues.every(({ message }) => beyondSchema.test(message))
  )
    return;
  expect([text, isAllowed(parse(text))]).toEqual([text, false]);
}

/** Returns the refusals, line by line. */
function listProblems(text: string, variables: Variables = {}): readonly string[] {
  compareWithSchema(text, variables);
  try {
    parseConfig('t.yaml', text, { variables, builtInIds: ['sim/text', 'sim/text:free'] });
  } catch (error) {
    if (error instanceof ConfigError) return error.lines;
    throw error;
  }
  return [];
}

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

describe('the error of a bad file names file, line, path and the allowed values', () => {
  test.each<[string, string, string]>([
    [
      'is not a known key',
      'timeuots: {}',
      '1: timeuots: is not a known key; did you mean timeouts? allowed here: public_url, ',
    ],
    ['nested unknown key', 'timeouts:\n  conect: 1s', '2: timeouts.conect: is not a known key; did you mean connect?'],
    ['duration', 'shutdown_grace: 30', '1: shutdown_grace: is "30", must be a duration from 0ms to 7d, such as 500ms'],
    ['duration unit', 'timeouts: { total: 1w }', '1: timeouts.total: is "1w", must be a duration from 1ms to 7d'],
    ['size', 'limits: { body_bytes: 64 apples }', '1: limits.body_bytes: is "64 apples", must be a size from 1024'],
    [
      'memory for parsing that one body could exceed',
      'limits: { body_bytes: 64MiB, parse_memory: 191MiB }',
      '1: limits.parse_memory: is "191MiB", must be at least 3 times limits.body_bytes',
    ],
    ['word', 'metrics: outside', '1: metrics: is "outside", must be internal or public'],
    ['flag', 'strict: yes', '1: strict: is "yes", must be true or false'],
    ['list', 'cors_origins: https://a.example', '1: cors_origins: is "https://a.example", must be a list'],
    [
      'origin',
      'cors_origins: [https://a.example/x]',
      '1: cors_origins[0]: is "https://a.example/x", must be an origin',
    ],
    [
      'cost of a route in another form than the price',
      model('id: m', priced, 'routes: [{ provider: p, model: m, cost: { input: 1 } }]'),
      '7: models[0].routes[0].cost.output: is missing; cost has the same prices as pricing, or is left out',
    ],
    [
      'cost of a route that its kind does not have',
      model('id: m', priced, 'routes: [{ provider: p, model: m, cost: { input: 1, output: 1, image: 1 } }]'),
      '7: models[0].routes[0].cost.image: is not charged on text models; use input and output',
    ],
    ['mapping', 'providers:\n  p: 5', '2: providers.p: is "5", must be a mapping'],
    ['not a mapping at all', '- a', '1: must be a mapping'],
    [
      'protocol',
      'providers:\n  p: { protocol: grpc, base_url: http://x }',
      '2: providers.p.protocol: is "grpc", must be',
    ],
    [
      'address',
      'providers:\n  p: { protocol: chat, base_url: ftp://x }',
      '2: providers.p.base_url: is "ftp://x", must',
    ],
    [
      'address with key',
      'providers:\n  p: { protocol: chat, base_url: "http://a:b@x" }',
      '2: providers.p.base_url: must be an http:// or https:// address without credentials',
    ],
    ['missing address', 'providers:\n  p:\n    protocol: chat', '2: providers.p.base_url: is missing, must be an http'],
    [
      'provider name',
      'providers:\n  "a b": { protocol: chat, base_url: http://x }',
      '2: providers."a b": the name must be',
    ],
    [
      'built-in name',
      'providers:\n  simulator: { protocol: chat, base_url: http://x }',
      '2: providers.simulator: is the',
    ],
    [
      'header',
      'providers:\n  p: { protocol: chat, base_url: http://x, headers: { Host: y } }',
      '2: providers.p.headers.Host',
    ],
    ['tip of no code', 'texts: { tips: { nope: x } }', '1: texts.tips.nope: the name must be an error code'],
    ['plan', 'plans:\n  gold: {}', '2: plans.gold: is not a known key; allowed here: core, core_pro'],
    [
      'plan model',
      'plans:\n  core:\n    models: [sim/texd]',
      '3: plans.core.models[0]: "sim/texd" names no model; did',
    ],
    ['discount', 'plans: { core: { discount: 5 } }', '1: plans.core.discount: is "5", must be a fraction from 0 to 1'],
    [
      'alias of nothing',
      'aliases:\n  fast: sim/texxt',
      '2: aliases.fast: "sim/texxt" names no model; did you mean sim/text?',
    ],
    ['alias as an id', 'aliases: { sim/text: sim/text }', '1: aliases."sim/text": is the id of a model'],
    [
      'alias with a tier',
      'aliases: { "a:flex": sim/text }',
      '1: aliases."a:flex": is "sim/text", must not end in :flex',
    ],
    [
      'free alias',
      'aliases: { "a:free": sim/text }',
      '1: aliases."a:free": is "sim/text", must name a model whose id ends',
    ],
    ['syntax', 'models:\n  - id: "x', '2: is not valid YAML: '],
    ['key twice', 'retries: 1\nretries: 2', '2: the same key is twice in one mapping'],
    ['two documents', 'retries: 1\n---\nretries: 2', '2: must be one YAML document'],
    ['unknown tag', 'retries: !money 5', '1: is not valid YAML: Unresolved tag'],
    ['model id', model('id: a b', priced, routed), '5: models[0].id: is "a b", must be an id of letters'],
    [
      'tier in an id',
      model('id: a:flex', priced, routed),
      '5: models[0].id: is "a:flex", must not end in :flex or :priority',
    ],
    ['built-in id', model('id: sim/text', priced, routed), '5: models[0].id: is the id of a built-in model'],
    [
      'id twice',
      `${model('id: a', priced, routed)}\n  - id: a\n    ${priced}\n    ${routed}`,
      '8: models[1].id: is the id of',
    ],
    ['no price', model('id: a', routed), '5: models[0].pricing: is missing; every model needs a price'],
    [
      'half a price',
      model('id: a', 'pricing: { input: 1 }', routed),
      '6: models[0].pricing.output: is missing; a model',
    ],
    [
      '7 decimals',
      model('id: a', 'pricing: { input: 0.1234567, output: 1 }', routed),
      '6: models[0].pricing.input: is "0.1',
    ],
    [
      'negative',
      model('id: a', 'pricing: { input: -1, output: 1 }', routed),
      '6: models[0].pricing.input: is "-1", must be',
    ],
    [
      'exponent',
      model('id: a', 'pricing: { input: 1e-7, output: 1 }', routed),
      '6: models[0].pricing.input: is "1e-7", must',
    ],
    [
      'priced free',
      model('id: a:free', 'pricing: { input: 0.1 }', routed),
      '6: models[0].pricing.input: is "0.1", must be 0',
    ],
    [
      'priced free cache',
      model('id: a:free', 'pricing: { caching: { read: 1 } }', routed),
      '6: models[0].pricing.caching.read: is "1", must be 0',
    ],
    [
      'image price of text',
      model('id: a', 'pricing: { input: 1, output: 1, image: 1 }', routed),
      '6: models[0].pricing.image:',
    ],
    [
      'old completions by a provider that does not speak chat',
      model('id: a', 'endpoints: [/v1/completions]', priced, 'routes: [{ provider: i, model: x }]'),
      '8: models[0].routes[0].provider: uses images, must use chat for /v1/completions',
    ],
    [
      'no price of a rerank model',
      model('id: a', 'endpoints: [/v1/rerank]', 'pricing: {}', routed),
      '7: models[0].pricing.search: is missing (or input)',
    ],
    [
      'two prices of a rerank model',
      model('id: a', 'endpoints: [/v1/rerank]', 'pricing: { search: 0.002, input: 1 }', routed),
      '7: models[0].pricing.input: is not charged on rerank models; use search or input',
    ],
    [
      'search price of text',
      model('id: a', 'pricing: { input: 1, output: 1, search: 1 }', routed),
      '6: models[0].pricing.search:',
    ],
    [
      'thresholds that fall',
      model(
        'id: a',
        'pricing:',
        '  input: 1',
        '  output: 1',
        '  above:',
        ...['9', '9'].map(at => `  - { input_tokens: ${at}, input: 1, output: 1 }`),
        routed,
      ),
      '11: models[0].pricing.above[1].input_tokens: is "9", must be more than the step before (9)',
    ],
    [
      'mixed paths',
      model('id: a', 'endpoints: [/v1/responses, /v1/images/edits]', priced, routed),
      '6: models[0].endpoints:',
    ],
    ['no path', model('id: a', 'endpoints: []', priced, routed), '6: models[0].endpoints: must list at least one path'],
    [
      'a path twice',
      model('id: a', 'endpoints: [/v1/responses, /v1/responses]', priced, routed),
      '6: models[0].endpoints: lists',
    ],
    [
      'strange path',
      model('id: a', 'endpoints: [/v1/chat]', priced, routed),
      '6: models[0].endpoints[0]: is "/v1/chat", must be',
    ],
    [
      'output above context',
      model('id: a', 'context_length: 10', 'max_output_tokens: 11', priced, routed),
      '7: models[0].max_',
    ],
    ['no route', model('id: a', priced), '5: models[0].routes: is missing; must have at least one route'],
    [
      'route to nowhere',
      model('id: a', priced, 'routes: [{ provider: q, model: m }]'),
      '7: models[0].routes[0].provider: "q" names no provider; did you mean p?',
    ],
    [
      'text by an image provider',
      model('id: a', priced, 'routes: [{ provider: i, model: m }]'),
      '7: models[0].routes[0].provider: ',
    ],
    [
      'a route twice',
      model('id: a', priced, 'routes:', '- { provider: p, model: m }', '- { provider: p, model: m }'),
      '9: models[0].routes[1]: is the same as another route (p, m)',
    ],
    [
      'tier of a route',
      model('id: a', priced, 'routes: [{ provider: p, model: m, tiers: [flex] }]'),
      '7: models[0].routes[0].tiers',
    ],
    [
      'weight',
      model('id: a', priced, 'routes: [{ provider: p, model: m, weight: -1 }]'),
      '7: models[0].routes[0].weight: is "-1"',
    ],
  ])('%s', (_name, text, line) => {
    const lines = listProblems(text);
    expect(lines.map(each => each.slice(0, `t.yaml:${line}`.length))).toEqual([`t.yaml:${line}`]);
  });

  test('several at once, in the order of the file', () => {
    expect(listProblems('retries: x\nstrict: 1\nmetrics: 2\nzzz: 1').map(line => line.split(': ')[0])).toEqual([
      't.yaml:1',
      't.yaml:2',
      't.yaml:3',
      't.yaml:4',
    ]);
  });

  test.each([
    'http://user:canary@x/v1',
    'http://x/v1?key=canary',
    'http://x/v1#canary',
    'ftp://canary@x',
    'user:canary@x/v1',
    'x/v1?key=canary',
  ])('an address that may have a secret in it is not repeated: %s', address => {
    for (const text of [`providers: { p: { protocol: chat, base_url: "${address}" } }`, `public_url: "${address}"`]) {
      expect(() => parseConfig('a.yaml', text, { variables: {}, builtInIds: [] })).toThrow(/^(?![^]*canary)/);
    }
  });

  test('a secret is never repeated', () => {
    const text =
      'providers:\n  p:\n    protocol: ${P}\n    base_url: http://x\n    api_key: " canary"\n    headers: { a: "ca\\nnary" }';
    const lines = listProblems(text, { P: 'canary' });
    expect(lines).toHaveLength(3);
    expect(lines.join('\n')).not.toMatch(/ca\s*nary/);
  });

  test('an alias that contains itself is refused', () => {
    expect(listProblems('models: &a [*a]')[0]).toContain('is too deep or too large');
  });

  test.each([
    [
      'aliases of aliases',
      [
        'a0: &a0 [x, x, x, x, x, x, x, x, x]',
        ...Array.from({ length: 8 }, (_, at) => `a${at + 1}: &a${at + 1} [${`*a${at}, `.repeat(9)}]`),
      ],
      'is too deep or too large',
    ],
    ['many aliases', ['a: &a x', ...Array.from({ length: 3_000 }, (_, at) => `k${at}: *a`)], 'is not a known key'],
    ['many keys', Array.from({ length: 3_000 }, (_, at) => `k${at}: 1`), 'is not a known key'],
  ])('%s take CPU time in proportion to their text', (_, lines, problem) => {
    const text = lines.join('\n');
    const plain = lines.map((line, at) => line.replace(/.*/, `p${at}: [x]`)).join('\n');
    const cpuMs = (read: string): number => {
      const before = process.cpuUsage();
      expect(listProblems(read).length).toBeGreaterThan(0);
      const { user, system } = process.cpuUsage(before);
      return (user + system) / 1_000;
    };
    cpuMs(plain);
    expect(listProblems(text)[0]).toContain(problem);
    expect(cpuMs(text)).toBeLessThan(150 + 3 * cpuMs(plain));
  });

  test('without the simulator its models do not exist', () => {
    expect(listProblems('simulator: { enabled: false }\naliases: { x: sim/text }')[0]).toContain('names no model');
  });
});

test('one slip makes a short list: only the first error of syntax, and a count of problems after twenty', () => {
  const providers = Array.from(
    { length: 400 },
    (_, index) => `  p${index}: { protocol: chat, base_url: "http://h/v1" `,
  );
  expect(listProblems(['providers: {', ...providers].join('\n'))).toEqual([
    't.yaml:3: is not valid YAML: Missing , between flow map items (799 more errors of syntax may follow from it)',
  ]);
  const models = Array.from({ length: 400 }, (_, index) => `  - { id: a/m${index}, price: 1 }`);
  const problems = listProblems(['models:', ...models].join('\n'));
  expect(problems).toHaveLength(21);
  expect(problems.at(-1)).toMatch(/^and \d+ more problems$/);
});
