import { expect, test } from 'vitest';
import {
  makeItem,
  messageContent,
  makeOpaque,
  makePart,
  reasoningContent,
  makeRequest,
  textContent,
  toolCallContent,
} from '../../codecs/content.ts';
import { type Item, Role } from '../../gen/tollgate/v1/content_pb.ts';
import type { GenerateRequest } from '../../gen/tollgate/v1/request_pb.ts';
import { StickyRoutes } from './sticky-routes.ts';

const message = (role: Role, text: string): Item => makeItem(messageContent(role, [makePart(textContent(text))]), 0);
const user = (text: string): Item => message(Role.USER, text);
const conversation = (...items: Item[]): GenerateRequest => makeRequest({ model: 'm', items });
const followUp = (first: string): GenerateRequest =>
  conversation(user(first), message(Role.ASSISTANT, 'yes'), user('and then?'));

const route = (provider: string, priority = 1) => ({ name: { modelId: 'm', provider, model: 'up' }, priority });
const [a, b, late] = [route('a'), route('b'), route('late', 2)];
const listNames = (sticky: StickyRoutes, request: GenerateRequest, routes = [a, b, late]): string[] =>
  sticky.ordered(routes, request).map(({ name }) => name.provider);

test('a conversation returns to the route that answered it; first requests are spread by weight, even identical ones', () => {
  const sticky = new StickyRoutes();
  sticky.recordRoute(conversation(user('hi')), b.name, 3);
  expect(listNames(sticky, followUp('hi'))).toEqual(['b', 'a', 'late']);
  expect(listNames(sticky, conversation(user('hi')))).toEqual(['a', 'b', 'late']);
  expect(listNames(sticky, followUp('hello'))).toEqual(['a', 'b', 'late']);
});

test('requests with the same prompt cache key keep their route from the first one on', () => {
  const sticky = new StickyRoutes();
  const grouped = { ...conversation(user('hi')), promptCacheKey: 'k' };
  sticky.recordRoute(grouped, b.name, 3);
  expect(listNames(sticky, grouped)).toEqual(['b', 'a', 'late']);
  expect(listNames(sticky, { ...grouped, promptCacheKey: 'other' })).toEqual(['a', 'b', 'late']);
});

test('a cached prompt does not override the priority of routes', () => {
  const sticky = new StickyRoutes();
  sticky.recordRoute(conversation(user('hi')), late.name, 3);
  expect(listNames(sticky, followUp('hi'))).toEqual(['a', 'b', 'late']);
});

test('a conversation goes back to the provider that sealed content in it, whatever the priority', () => {
  const sticky = new StickyRoutes();
  const call = makeItem(toolCallContent({ signature: makeOpaque('gemini.thought_signature', 'S', 'late') }), 0);
  expect(listNames(sticky, conversation(user('hi'), call))).toEqual(['late', 'a', 'b']);
  const reasoning = makeItem(reasoningContent({ opaque: [makeOpaque('openai.encrypted', 'E', 'b')] }), 0);
  expect(listNames(sticky, conversation(user('hi'), reasoning))).toEqual(['b', 'a', 'late']);
  const withoutProvider = makeItem(reasoningContent({ opaque: [makeOpaque('anthropic.signature', 'E', '')] }), 0);
  expect(listNames(sticky, conversation(user('hi'), withoutProvider))).toEqual(['a', 'b', 'late']);
});

test('only the last 10,000 conversations are remembered', () => {
  const sticky = new StickyRoutes();
  for (let index = 0; index <= 10_000; index += 1) sticky.recordRoute(conversation(user(`${index}`)), b.name, 2);
  expect(listNames(sticky, followUp('0'))).toEqual(['a', 'b', 'late']);
  expect(listNames(sticky, followUp('1'))).toEqual(['b', 'a', 'late']);
});
