/**
 * The title of some test names every case of `test/translation/cases.json`, unless a document gives a reason why there is no test. A case describes what can go wrong
 * between two protocols, and what is right.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { parseSync } from 'oxc-parser';
import { expect, test } from 'vitest';

const root = resolve(import.meta.dirname, '../..');
const cases = (JSON.parse(readFileSync(resolve(import.meta.dirname, 'cases.json'), 'utf8')) as { id: string }[]).map(
  ({ id }) => id,
);
const document = resolve(root, 'docs/decisions/2026-11-21-translation-cases.md');
const caseId = /\b[A-Z]{2}-\d{2}\b/g;

/** A node of a syntax tree, or a list of nodes, or a value in one. */
type Node = { readonly [name: string]: unknown };

const isNode = (value: unknown): value is Node => typeof value === 'object' && value !== null;

/** Returns the first name in a chain of calls: `test` for `test.concurrent.each(table)(title, run)`. */
function rootName(callee: unknown): string {
  if (!isNode(callee)) return '';
  const { name, object, callee: inner } = callee;
  return typeof name === 'string' ? name : rootName(object) || rootName(inner);
}

/** Returns all string literals below a node, except those in functions. */
function textsIn(value: unknown): string[] {
  if (!isNode(value) || /Function/.test(String(value['type']))) return [];
  if (value['type'] === 'Literal') return [String(value['value'])];
  if (value['type'] === 'TemplateElement') return [JSON.stringify(value['value'])];
  return Object.values(value).flatMap(textsIn);
}

/** Returns the titles of tests and groups, with their tables: the arguments of all calls that begin with `test` or `describe`. */
function titlesIn(value: unknown): string[] {
  if (!isNode(value)) return [];
  const below = Object.values(value).flatMap(titlesIn);
  if (value['type'] !== 'CallExpression' || !/^(test|describe)$/.test(rootName(value['callee']))) return below;
  return [...textsIn(value['arguments']), ...below];
}

function testFiles(): string[] {
  const below = (folder: string): string[] =>
    readdirSync(resolve(root, folder), { recursive: true, encoding: 'utf8' })
      .filter(file => file.endsWith('.ts') && !file.includes('node_modules'))
      .map(file => resolve(root, folder, file));
  return [...below('test'), ...below('src').filter(file => file.endsWith('.test.ts'))];
}

function namedInTitles(): Set<string> {
  const texts = testFiles().map(file => readFileSync(file, 'utf8'));
  const titles = texts
    .filter(text => text.search(caseId) >= 0)
    .flatMap(text => titlesIn(parseSync('x.test.ts', text).program));
  return new Set(titles.flatMap(title => title.match(caseId) ?? []));
}

test('every translation case has a test, or is listed with the reason why not', () => {
  const named = namedInTitles();
  const [, untested = '', otherwise = ''] = readFileSync(document, 'utf8').split(/^## /m);
  const listed = new Set(untested.match(caseId));
  expect(cases.length).toBeGreaterThan(100);
  expect(cases.filter(id => !named.has(id) && !listed.has(id))).toEqual([]);
  // A reason is wrong if the case has a test or does not exist.
  expect([...listed].filter(id => named.has(id) || !cases.includes(id))).toEqual([]);
  expect(otherwise.match(caseId)?.filter(id => !named.has(id))).toEqual([]);
});

test('an id counts only in titles and their tables, not in comments, bodies or other texts', () => {
  const text = `
    // TR-01
    const other = 'TR-02';
    describe('TR-03', () => {
      test.concurrent.each([['TR-04', 1]] as const)(\`\${other} TR-05: %s\`, () => { expect('TR-06').toBe(other); });
      run('TR-07');
    });`;
  const titles = titlesIn(parseSync('x.test.ts', text).program).join(' ');
  expect([...new Set(titles.match(caseId))].toSorted()).toEqual(['TR-03', 'TR-04', 'TR-05']);
});
