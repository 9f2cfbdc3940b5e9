import { globSync, readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { expect, test } from 'vitest';
import { tableText } from '../../src/cli/output.ts';
import { modelView } from '../../src/cli/resources.ts';
import { parseConfig } from '../../src/config/config.ts';
import { configJsonSchema } from '../../src/config/json-schema.ts';
import { fileSchema } from '../../src/config/schema.ts';
import { catalogContent } from '../../src/gateway/live-config.ts';

const root = resolve(import.meta.dirname, '../..');
const example = readFileSync(resolve(root, 'tollgate.example.yaml'), 'utf8');
const page = (name: string): string => readFileSync(resolve(root, 'docs', name), 'utf8');
const read = (text: string, variables: Readonly<Record<string, string>> = {}) =>
  parseConfig('tollgate.example.yaml', text, { variables, builtInIds: [] });

test('the example can be read without any environment variable', () => {
  const config = read(example);
  expect(config.models.map(({ id }) => id)).toEqual(['local/llama']);
  expect(config.providers.map(({ name, baseUrl }) => [name, baseUrl])).toEqual([
    ['local', 'http://127.0.0.1:11434/v1'],
  ]);
});

test('the values that are documented as defaults are the defaults', () => {
  const { models: _models, providers: _providers, aliases: _aliases, ...settings } = read(example);
  const { models, providers, aliases, ...defaults } = read('');
  expect([models, providers, [...aliases]]).toEqual([[], [], []]);
  expect(settings).toEqual(defaults);
});

test('its commented-out settings are valid too', () => {
  // An entry behind a # looks like `key: …` or `- …`; prose ends with a full stop.
  const lines = example
    .split('\n')
    .map(line => (line.endsWith('.') ? line : line.replace(/^( *)# (?= *(?:- \{|(?:- )?[a-z_]+:(?: |$)))/, '$1')));
  const variables = { LOCAL_KEY: 'a', OPENAI_API_KEY: 'b', AZURE_ID: 'c', AZURE_SECRET: 'd' };
  const painter = '  painter: { protocol: images, base_url: http://x }\n  local:';
  const config = read(lines.join('\n').replace('  local:', painter), variables);
  expect(config.publicUrl).toBe('https://gateway.example');
  expect(config.providers.map(({ name }) => name)).toEqual([
    'painter',
    'local',
    'openai',
    'bedrock',
    'vertex',
    'azure',
  ]);
  expect(config.models.map(({ id }) => id)).toEqual([
    'local/llama',
    'acme/paint',
    'acme/draw',
    'acme/embed',
    'acme/rerank',
  ]);
  expect(config.models[0]?.pricing.above).toHaveLength(1);
  expect(config.models[0]?.available).toBe(false);
  expect(config.texts.support).toBe('mailto:support@gateway.example');
});

test('the example and docs/configuration.md name every key of the configuration', () => {
  const keys = Object.keys(fileSchema.out.def.shape);
  expect(keys.filter(key => !new RegExp(`^(# )?${key}:`, 'm').test(example))).toEqual([]);
  expect([...page('configuration.md').matchAll(/^\| `([a-z_]+)` \| .* \| .* \|$/gm)].map(([, key]) => key)).toEqual(
    expect.arrayContaining(keys),
  );
});

/** A node in the JSON Schema of the configuration. */
interface Node {
  readonly properties?: Readonly<Record<string, Node>>;
  readonly additionalProperties?: Node | boolean;
  readonly items?: Node;
  readonly anyOf?: readonly Node[];
}

/** Returns the paths of all keys below a node, the names that operators choose as `*`. */
function listKeys({ properties = {}, additionalProperties, items, anyOf = [] }: Node, path = ''): string[] {
  const named = Object.entries(properties).flatMap(([key, node]) => [path + key, ...listKeys(node, `${path + key}.`)]);
  const chosen = typeof additionalProperties === 'object' ? listKeys(additionalProperties, `${path}*.`) : [];
  const others = [...anyOf, ...(items === undefined ? [] : [items])];
  return [...named, ...chosen, ...others.flatMap(node => listKeys(node, path))];
}

test('the example names every key inside a section, too', () => {
  const keys = listKeys(configJsonSchema());
  expect(keys.length).toBeGreaterThan(150);
  expect(keys.filter(key => !new RegExp(`\\b${key.split('.').at(-1) ?? key}\\b`).test(example))).toEqual([]);
});

test.each(['configuration.md', 'security.md'])('the sample in docs/%s is a valid configuration', name => {
  const samples = [...page(name).matchAll(/^```yaml\n([^]*?)^```/gm)].map(([, text = '']) => text);
  expect(samples).toHaveLength(1);
  for (const sample of samples) {
    const names = [...sample.matchAll(/\$\{(\w+)\}/g)].map(([, variable = '']) => variable);
    const variables = names.map((variable, index) => [variable, `tok-${String(index).padStart(43, 'a')}`] as const);
    expect(() => read(sample, Object.fromEntries(variables))).not.toThrow();
  }
});

test('docs/configuration.md names every environment variable that is read', () => {
  const source = readFileSync(resolve(root, 'src/config/env.ts'), 'utf8');
  const variables = new Set(source.match(/TOLLGATE_\w+/g));
  expect(variables.size).toBeGreaterThan(10);
  expect([...variables].filter(variable => !page('configuration.md').includes(`\`${variable}\``))).toEqual([]);
});

test('docs/providers.md shows the built-in models as the command line does', () => {
  const { models } = catalogContent(read(''));
  expect(page('providers.md')).toContain(tableText(models.map(modelView.row), modelView.columns));
});

test('`tollgate models list` has a column for each price of the built-in models', () => {
  const { models } = catalogContent(read(''));
  const prices = models.flatMap(model => Object.entries(modelView.document(model).pricing));
  const names = new Set(prices.filter(([, price]) => typeof price === 'number').map(([name]) => name));
  expect(names).toContain('search');
  expect([...names].filter(name => !modelView.columns.some(column => column === name))).toEqual([]);
});

test('docs/command-line.md names every option of the command line', () => {
  const sources = globSync('src/cli/**/*.ts', { cwd: root }).map(path => readFileSync(resolve(root, path), 'utf8'));
  const options = new Set(
    sources.flatMap(source => [...source.matchAll(/ption\(\s*'(--[a-z-]+)/g)].map(([, name]) => name)),
  );
  expect(options.size).toBeGreaterThan(60);
  expect([...options].filter(name => !page('command-line.md').includes(name ?? ''))).toEqual([]);
});
