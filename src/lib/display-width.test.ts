import { expect, test } from 'vitest';
import { displayWidth } from './display-width.ts';

test.each([
  ['Acme', 4],
  ['', 0],
  ['Größe', 5],
  ['Gro\u0308ße', 5],
  ['株式会社', 8],
  ['한국', 4],
  ['ＡＢ', 4],
  ['🚀', 2],
  ['👩‍👩‍👧', 2],
  ['❤️', 2],
  ['a\u0301', 1],
  ['½ €', 3],
])('%s takes %i columns', (text, width) => {
  expect(displayWidth(text)).toBe(width);
});
