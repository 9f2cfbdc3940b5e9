import { expect, test } from 'vitest';
import { compareBodies } from './compare.ts';

const marked = (text: string, other: string) =>
  compareBodies(text, other)
    .filter(({ mark }) => mark !== 'same')
    .map(({ text: line, mark }) => [mark, line.trim()]);

test('a member that the upstream did not get is marked as missing, a different one as changed, all others as equal', () => {
  const client = JSON.stringify({ model: 'a/b', top_k: 3, messages: [{ role: 'user', content: 'Hi' }], tags: ['x'] });
  const upstream = JSON.stringify({ model: 'b', messages: [{ role: 'user', content: 'Hi' }], stream: true });
  expect(marked(client, upstream)).toEqual([
    ['changed', '"model": "a/b",'],
    ['only', '"top_k": 3,'],
    ['only', '"tags": ['],
    ['only', '"x"'],
    ['only', ']'],
  ]);
  expect(marked(upstream, client)).toEqual([
    ['changed', '"model": "b",'],
    ['only', '"stream": true'],
  ]);
});

test('a stream is shown unchanged, and nothing is marked in its comparison', () => {
  const frames = 'data: {"a":1}\n\ndata: [DONE]';
  expect(compareBodies(frames, '{}').map(({ text }) => text)).toEqual(['data: {"a":1}', '', 'data: [DONE]']);
  expect(marked('{"a":1}', frames)).toEqual([]);
});

test('the lines together are the body, whatever it contains', () => {
  const body = { a: [], b: {}, c: null, d: [1, { e: '</script>' }], 'f"': 'g' };
  const text = compareBodies(JSON.stringify(body), '{}')
    .map(line => line.text)
    .join('\n');
  expect(JSON.parse(text)).toEqual(body);
});
