import { existsSync, readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { expect, test } from 'vitest';
import { providersDocPath, withFacts } from '../scripts/providers-doc.ts';
import { cleanEnvironment } from '../scripts/clean-environment.ts';
import { parseConfig } from '../src/config/config.ts';
import { withPresetModels } from '../src/config/preset-catalogue.ts';
import { presets } from '../src/config/presets.ts';

const root = resolve(import.meta.dirname, '..');
const read = (path: string): string => readFileSync(resolve(root, path), 'utf8');
const page = readFileSync(providersDocPath, 'utf8');

/** All environment variables of presets, as an operator who uses all presets would set them. */
const variables = Object.fromEntries(
  presets.flatMap(({ addressVariable, accountVariable, keyVariables = [] }) => [
    ...(accountVariable === undefined ? [] : [[accountVariable, 'abc'] as const]),
    ...(addressVariable === undefined ? [] : [[addressVariable, 'http://127.0.0.1:1'] as const]),
    ...keyVariables.map(name => [name, 'key'] as const),
  ]),
);

test('docs/providers.md has the tables that are made from the presets', () => {
  expect(page, 'run: node scripts/providers-doc.ts').toBe(withFacts(page));
});

test('docs/providers.md says for every preset what was tried, in the order of the presets, and names only existing tests', () => {
  const tried = page.slice(page.indexOf('## What was tried'));
  const rows = [...tried.matchAll(/^\| ([^|]+) \| [^|]+ \| [^|]+ \|$/gm)].map(([, title]) => title);
  expect(rows).toEqual(['provider', '---', ...presets.map(({ title }) => title)]);
  const named = [...page.matchAll(/`((?:test|src|scripts)\/[\w./-]+\.ts)`/g)].map(([, path = '']) => path);
  expect(named.length).toBeGreaterThan(20);
  expect(named.filter(path => !existsSync(resolve(root, path)))).toEqual([]);
});

test('docs/providers.md, docs/configuration.md and the README have the right number of presets', () => {
  expect(presets).toHaveLength(33);
  expect(page).toContain('Thirty-three presets');
  expect(read('README.md')).toContain('`OLLAMA_HOST` and 29 more');
  expect(read('docs/configuration.md')).toContain('`OLLAMA_HOST` and 29 more');
});

test('docs/providers.md names the pinned version of the price package', () => {
  const { dependencies } = JSON.parse(read('package.json')) as { dependencies: Record<string, string> };
  expect(page).toContain(`\`@pydantic/genai-prices\`, version ${dependencies['@pydantic/genai-prices']},`);
});

test('the examples in docs/providers.md are valid configurations, together with every preset', async () => {
  const examples = [...page.matchAll(/```yaml\n([^]*?)```/g)].map(([, text = '']) => text);
  expect(examples).toHaveLength(4);
  for (const text of examples) {
    const config = parseConfig('', text, { variables: { ...variables, OPENAI_API_KEY_2: 'other' }, builtInIds: [] });
    const { models } = await withPresetModels(config);
    const ids = models.map(({ id }) => id);
    expect(new Set(ids).size).toBe(ids.length);
    for (const id of config.aliases.values()) expect(ids).toContain(id);
  }
});

test('the README and AGENTS.md link to docs/providers.md', () => {
  expect(read('README.md')).toContain('(docs/providers.md)');
  expect(read('AGENTS.md')).toContain('docs/providers.md');
});

test('tests see no variable of any preset', () => {
  const environment = { ...variables };
  cleanEnvironment(environment);
  expect(environment).toEqual({});
});
