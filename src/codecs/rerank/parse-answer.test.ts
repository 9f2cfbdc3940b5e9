import { expect, test } from 'vitest';
import { parseRerankAnswer } from './parse-answer.ts';

const ranked = { index: 3, relevance_score: 0.74 };

test.each([
  ['results', { results: [ranked], usage: { total_tokens: 57 } }],
  ['data, as Voyage calls them (2025)', { object: 'list', data: [ranked], usage: { total_tokens: 57 } }],
])('results are read from %s', (_, body) => {
  expect(parseRerankAnswer(JSON.stringify(body))).toEqual({
    results: [{ index: 3, relevanceScore: 0.74 }],
    inputTokens: 57,
    searchUnits: undefined,
  });
});
