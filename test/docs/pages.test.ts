/** Every link and citation in documents and comments leads to an existing page, heading or file of this repository. */
import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { expect, test } from 'vitest';
import { files, pages, read, root } from './files.ts';

/** The files that may contain citations; this file is left out, because it contains forbidden ones. */
const sources = files.filter(
  path =>
    /\.(tsx?|mjs|css|proto|sql|ya?ml|md|html|c|py|sh|tpl|service)$|Dockerfile$/.test(path) &&
    !path.startsWith('src/gen/') &&
    !path.endsWith('docs/pages.test.ts'),
);

/** Returns the headings of a page. Lines in code blocks are not headings. */
function listHeadings(path: string): string[] {
  const text = read(path).replace(/^```[^]*?^```/gm, '');
  return Array.from(text.matchAll(/^#+ (.+)$/gm), ([, heading = '']) => heading.replaceAll('`', ''));
}

/** Returns the anchor that GitHub makes of a heading. */
function toSlug(heading: string): string {
  return heading
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}\s_-]/gu, '')
    .replaceAll(' ', '-');
}

/** Returns a text in which comments over several lines are on one line. */
const unwrap = (text: string): string => text.replaceAll(/\n[ \t]*(?:\*|\/\/|#)?[ \t]*/g, ' ');

interface Citation {
  readonly from: string;
  readonly page: string;
  readonly headings: readonly string[];
  readonly anchor: string | undefined;
}

/** Returns citations of the form `docs/page.md`, `docs/page.md#anchor` or `docs/page.md "Heading", "Heading"`. */
function citationsIn(path: string): Citation[] {
  const found = unwrap(read(path)).matchAll(/(?<![\w./])(docs\/[\w./-]+\.md)(?:#([\w-]+))?`?((?:,? "[^"]+")*)/g);
  return Array.from(found, ([, page = '', anchor, quoted = '']) => ({
    from: path,
    page,
    anchor,
    headings: Array.from(quoted.matchAll(/"([^"]+)"/g), ([, each = '']) => each),
  }));
}

test('every citation names an existing page and a heading of it', () => {
  const citations = sources.flatMap(citationsIn);
  expect(citations.length).toBeGreaterThan(250);
  expect(citations.flatMap(({ headings }) => headings).length).toBeGreaterThan(250);
  const wrong = citations.flatMap(({ from, page, headings, anchor }) => {
    if (!existsSync(join(root, page))) return [`${from}: ${page}`];
    const there = listHeadings(page);
    const slugs = there.map(toSlug);
    return [
      ...headings.filter(heading => !there.includes(heading)).map(heading => `${from}: ${page} "${heading}"`),
      ...(anchor === undefined || slugs.includes(anchor) ? [] : [`${from}: ${page}#${anchor}`]),
    ];
  });
  expect(wrong).toEqual([]);
});

test('nothing cites a page that is not in this repository', () => {
  const outside =
    /\.\.\/shared|\bshared\/(?:spec|design|reference)|\b(?:spec|design|reference)\/[a-z-]+\.(?:md|json)|\bdecisions §|(?<![\w./-])(?:wire|hearts|service|decisions|control|endpoints|growth|style)\.md\b/;
  const own = /\]\([\w./#-]+\)|`?docs\/[\w./-]+/g;
  expect(
    sources.flatMap(path => {
      const lines = read(path).replaceAll(own, '').split('\n');
      return lines.flatMap((line, index) => (outside.test(line) ? [`${path}:${index + 1}: ${line.trim()}`] : []));
    }),
  ).toEqual([]);
});

test('every link of a page leads to an existing file, and to a heading in it', () => {
  const links = pages.flatMap(page =>
    Array.from(read(page).matchAll(/\]\(((?![a-z]+:)[^)\s]+)\)/g), ([, link = '']) => ({ page, link })),
  );
  expect(links.length).toBeGreaterThan(100);
  const wrong = links.filter(({ page, link }) => {
    const [path = '', anchor] = link.split('#');
    const target = path === '' ? page : join(dirname(page), path);
    if (!existsSync(join(root, target))) return true;
    return anchor !== undefined && !listHeadings(target).map(toSlug).includes(anchor);
  });
  expect(wrong).toEqual([]);
});

test('files that pages name exist', () => {
  const named = pages.flatMap(page =>
    Array.from(
      read(page).matchAll(/`((?:src|test|scripts|bench|proto|deploy|examples|bin)\/[\w./-]+)`/g),
      ([, path = '']) => ({ page, path }),
    ),
  );
  expect(named.length).toBeGreaterThan(100);
  expect(named.filter(({ path }) => !existsSync(join(root, path)))).toEqual([]);
});

test('docs/README.md lists every page', () => {
  const index = read('docs/README.md');
  const there = pages.filter(page => /^docs\/[\w-]+\.md$/.test(page) && page !== 'docs/README.md');
  expect(there.filter(page => !index.includes(`(${page.slice('docs/'.length)})`))).toEqual([]);
  const interfaces = read('docs/interfaces/README.md');
  const own = pages.filter(page => page.startsWith('docs/interfaces/') && !page.endsWith('README.md'));
  expect(own.filter(page => !interfaces.includes(`(${page.slice('docs/interfaces/'.length)})`))).toEqual([]);
});

test('the README has at most 130 lines', () => {
  expect(read('README.md').split('\n').length).toBeLessThanOrEqual(131);
});
