import { expect, test } from 'vitest';
import { answerFormat } from './answer-format.ts';

const events = 'text/event-stream; charset=utf-8';
const json = 'application/json';

test.each([
  ['data: {}', events, 'events'],
  ['garbage', events, 'events'],
  ['\uFEFF\r\n: hello', events, 'events'],
  ['{"error":1}', events, 'json'],
  [' \n{"id":1}', json, 'json'],
  ['[1]', json, 'json'],
  ['data: {}', json, 'events'],
  ['data: {}', '', 'events'],
  ['event: x', 'text/plain', 'events'],
  ['da', 'text/plain', 'events'],
  [': comment', 'application/octet-stream', 'events'],
  ['<html>', 'text/html', 'foreign'],
  ['database', 'text/plain', 'foreign'],
  ['"text"', json, 'foreign'],
  ['', events, 'undecided'],
  [' \r\n\t', json, 'undecided'],
])('%j under %j is read as %s', (start, contentType, expected) => {
  expect(answerFormat(Buffer.from(start), contentType)).toBe(expected);
});
