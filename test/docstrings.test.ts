/** Checks how docstrings begin, which no linter checks. */
import { readdirSync, readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { expect, test } from 'vitest';

const root = resolve(import.meta.dirname, '..');

test('a docstring says what something is or does, and does not begin with “What”', () => {
  const folders = ['src', 'scripts', 'bench', 'examples'];
  const found = folders.flatMap(folder =>
    readdirSync(resolve(root, folder), { recursive: true, encoding: 'utf8' })
      .filter(path => /\.(?:ts|tsx|mjs)$/.test(path) && !/(?:^|\/)node_modules\//.test(path))
      .flatMap(path => {
        const lines = readFileSync(resolve(root, folder, path), 'utf8').split('\n');
        return lines.flatMap((line, index) =>
          /^\s*\/\*\*\s+What /.test(line) ? [`${folder}/${path}:${index + 1}`] : [],
        );
      }),
  );
  expect(found).toEqual([]);
});
