/** The lists that name every path that generates text, which the compiler does not compare: one that lacks a new path would silently treat its requests as others. */
import { expect, test } from 'vitest';
import { endpointPaths, findModelKind } from '../src/config/model-kind.ts';
import { interfaces } from '../src/dashboard/app/playground/code.ts';
import { resolveAlias } from '../src/edge/aliases.ts';
import { operations } from '../src/edge/openapi/document.ts';
import { fieldName } from '../src/generation/check/field-names.ts';
import { findEndpoint, isTextEndpoint } from '../src/generation/endpoints.ts';
import { answerSamples } from './contracts/answer-samples.ts';
import { samples } from './contracts/unknown-arbitraries.ts';

const textPaths = endpointPaths.filter(path => findModelKind([path]) === 'text');
/** The text paths that take a conversation. */
const conversationPaths = textPaths.filter(path => path !== '/v1/completions');

test.each(textPaths)('%s is a text endpoint, has names of its fields, and is in the reference', path => {
  const endpoint = findEndpoint(path) ?? expect.fail('no endpoint');
  expect(isTextEndpoint(endpoint)).toBe(true);
  expect(fieldName(endpoint, 'items')).not.toBe('items');
  expect(operations.map(operation => operation.path)).toContain(path);
});

test.each(endpointPaths.filter(path => path.startsWith('/v1/')))('%s is also found without /v1', path => {
  expect(resolveAlias(path.slice('/v1'.length))).toBe(path);
});

test('the playground offers each path that takes a conversation', () => {
  expect(interfaces.map(({ path }) => path).toSorted()).toEqual(conversationPaths.toSorted());
});

test('each path that takes a conversation has samples with unknown members, of requests and of answers', () => {
  const paths = Object.values(samples).map(({ path }) => path);
  expect(paths.toSorted()).toEqual(conversationPaths.toSorted());
  expect(Object.keys(answerSamples).toSorted()).toEqual(Object.keys(samples).toSorted());
});
