/** Every command, option, script and variable that documents, comments and messages name exists; every command is documented. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, expect, test } from 'vitest';
import { commandLineDoc } from '../../scripts/command-line-doc.ts';
import { runCommandLine } from '../../src/cli/program.ts';
import { makePorts } from '../cli/ports.ts';
import { files, pages, read, root } from './files.ts';

/** Files whose comments and messages name commands. */
const sources = files.filter(
  path =>
    /^(?:src|deploy|examples|scripts|bench)\/|^(?:compose\.yaml|Dockerfile|tollgate\.example\.yaml)$/.test(path) &&
    !path.startsWith('src/gen/'),
);

/** The words that can follow each command, by the words that name it: `limits create` → `--max`. */
const following = new Map<string, ReadonlySet<string>>();
beforeAll(async () => {
  let script = '';
  const streams = { out: (text: string) => void (script += text), err: () => undefined };
  await runCommandLine(['completion', 'bash'], { ...makePorts({}), streams });
  for (const [, path = '', words = ''] of script.matchAll(/^ {4}'(.*)'\) words='(.*)' ;;$/gm)) {
    following.set(path, new Set(words.split(' ')));
  }
});

/** A command as it is written, without `tollgate`. */
interface Written {
  readonly from: string;
  readonly text: string;
}

/** Returns what is wrong with a command: a name or an option that does not exist; undefined if nothing is. */
function findMistake({ from, text }: Written): string | undefined {
  const words = text.replace(/ -- .*$/, '').split(/\s+/);
  let path = '';
  for (const word of words) {
    if (!/^[a-z]/.test(word) || following.get(path)?.has(word) !== true) break;
    path = `${path} ${word}`.trim();
  }
  const [next = ''] = words.slice(path === '' ? 0 : path.split(' ').length);
  const allowed = following.get(path);
  const isGroup = allowed?.values().some(word => !word.startsWith('-'));
  if (path === '' || (isGroup && /^[a-z]/.test(next))) return `${from}: tollgate ${text}: no command ${path} ${next}`;
  // `tollgate holds` is `tollgate holds list`.
  const options = new Set([...(allowed ?? []), ...(following.get(`${path} list`) ?? [])]);
  const unknown =
    text
      .replace(/ -- .*$/, '')
      .match(/--[a-z][a-z-]*/g)
      ?.filter(option => !options.has(option)) ?? [];
  return unknown.length === 0 ? undefined : `${from}: tollgate ${path} has no ${unknown.join(', ')}`;
}

/** Returns the commands in the code of a page: in backticks, in blocks, and in indented lines. */
function listCommands(page: string): Written[] {
  const found = read(page).matchAll(/(?:`|^(?:\$ | {4})?)(?:[A-Z_]+=\S+ )?(?:npx )?tollgate ([a-z][^`\n]*)/gm);
  return Array.from(found, ([, text = '']) => ({ from: page, text: text.replace(/ (?:\\?\||#|>).*$/, '') }));
}

test('every `tollgate` command of a page exists, with its options', () => {
  const commands = pages.flatMap(listCommands);
  expect(commands.length).toBeGreaterThan(95);
  expect(commands.flatMap(command => findMistake(command) ?? [])).toEqual([]);
});

test('docs/command-line.md is what the commands say, and lists every command', async () => {
  const page = read('docs/command-line.md');
  expect(page, 'run: npm run generate').toBe(await commandLineDoc());
  const leaves = [...following].filter(
    ([path, words]) => path !== '' && words.values().every(word => word.startsWith('-')),
  );
  expect(leaves.length).toBeGreaterThan(70);
  expect(leaves.map(([path]) => path).filter(path => !page.includes(`\n    tollgate ${path}`))).toEqual([]);
});

test('every `tollgate` command in a comment, message or setting exists, with its options', () => {
  const commands = sources.flatMap(path =>
    Array.from(
      read(path).matchAll(/(?:[`'(]|npx )tollgate (?!sealed box)([a-z][a-z-]*(?: [a-zA-Z<>_-]+)*)/g),
      ([, text = '']) => ({
        from: path,
        text,
      }),
    ),
  );
  expect(commands.length).toBeGreaterThan(20);
  expect(commands.flatMap(command => findMistake(command) ?? [])).toEqual([]);
});

test('every npm script, program of `scripts` and variable that a page names exists', () => {
  const { scripts } = JSON.parse(read('package.json')) as { scripts: Record<string, string> };
  const code = files
    .filter(path => !path.endsWith('.md') && !/^test\/.*\.test\.ts$|\.(?:png|jpg|webp|sqlite|bin|gz)$/.test(path))
    .map(read)
    .join('\n');
  const wrong = [...pages, ...sources].flatMap(path => {
    const text = read(path);
    const names = Array.from(text.matchAll(/npm run ([a-z:-]+)/g), ([, name = '']) => name);
    const programs = Array.from(
      text.matchAll(/node ((?:scripts|bench|examples|test|bin)\/[\w./-]+\.[a-z]+)/g),
      ([, name = '']) => name,
    );
    const variables = pages.includes(path) ? (text.match(/\bTOLLGATE_[A-Z_]+\b/g) ?? []) : [];
    return [
      ...names.filter(name => scripts[name] === undefined),
      ...programs.filter(name => !existsSync(join(root, name))),
      ...variables.filter(name => !code.includes(name)),
    ].map(name => `${path}: ${name}`);
  });
  expect(wrong).toEqual([]);
});
