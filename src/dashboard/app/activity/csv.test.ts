import { expect, test } from 'vitest';
import { csvField } from './csv.ts';

test('a field is quoted where it must be, and no spreadsheet reads it as a formula', () => {
  expect(['plain', 'a,b', 'say "hi"', '=1+1', '@cmd', '-2'].map(csvField)).toEqual([
    'plain',
    '"a,b"',
    '"say ""hi"""',
    "'=1+1",
    "'@cmd",
    "'-2",
  ]);
});
