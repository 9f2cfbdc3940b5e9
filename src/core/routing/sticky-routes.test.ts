import { expect, test } from 'vitest';
import {
  itemOf,
  messageContent,
  opaqueOf,
  partOf,
  reasoningContent,
  requestOf,
  textContent,
  toolCallContent,
} from '../../codecs/content.ts';
import { type Item, Role } from '../../gen/tollgate/v1/content_pb.ts';
import type { GenerateRequest } from '../../gen/tollgate/v1/request_pb.ts';
import { StickyRoutes } from './sticky-routes.ts';

const said = (role: Role, text: string): Item => itemOf(messageContent(role, [partOf(textContent(text))]), 0);
const user = (text: string): Item => said(Role.USER, text);
const conversation = (...items: Item[]): GenerateRequest => requestOf({ model: 'm', items });
const again = (first: string): GenerateRequest =>
  conversation(user(first), said(Role.ASSISTANT, 'yes'), user('and then?'));

const route = (provider: string, priority = 1) => ({ name: { modelId: 'm', provider, model: 'up' }, priority });
const [a, b, late] = [route('a'), route('b'), route('late', 2)];
const namesOf = (sticky: StickyRoutes, request: GenerateRequest, routes = [a, b, late]): string[] =>
  sticky.ordered(routes, request).map(({ name }) => name.provider);

test('a conversation goes on where it was answered; first requests are left to weight, however alike they are', () => {
  const sticky = new StickyRoutes();
  sticky.took(conversation(user('hi')), b.name, 3);
  expect(namesOf(sticky, again('hi'))).toEqual(['b', 'a', 'late']);
  expect(namesOf(sticky, conversation(user('hi')))).toEqual(['a', 'b', 'late']);
  expect(namesOf(sticky, again('hello'))).toEqual(['a', 'b', 'late']);
});

test('a group of the client’s own for the cache stays together from its first request on', () => {
  const sticky = new StickyRoutes();
  const grouped = { ...conversation(user('hi')), promptCacheKey: 'k' };
  sticky.took(grouped, b.name, 3);
  expect(namesOf(sticky, grouped)).toEqual(['b', 'a', 'late']);
  expect(namesOf(sticky, { ...grouped, promptCacheKey: 'other' })).toEqual(['a', 'b', 'late']);
});

test('a cache is no reason to leave the priority that the operator chose', () => {
  const sticky = new StickyRoutes();
  sticky.took(conversation(user('hi')), late.name, 3);
  expect(namesOf(sticky, again('hi'))).toEqual(['a', 'b', 'late']);
});

test('what a provider sealed goes back to it, before priority', () => {
  const sticky = new StickyRoutes();
  const call = itemOf(toolCallContent({ signature: opaqueOf('gemini.thought_signature', 'S', 'late') }), 0);
  expect(namesOf(sticky, conversation(user('hi'), call))).toEqual(['late', 'a', 'b']);
  const thoughts = itemOf(reasoningContent({ opaque: [opaqueOf('openai.encrypted', 'E', 'b')] }), 0);
  expect(namesOf(sticky, conversation(user('hi'), thoughts))).toEqual(['b', 'a', 'late']);
  const nobody = itemOf(reasoningContent({ opaque: [opaqueOf('anthropic.signature', 'E', '')] }), 0);
  expect(namesOf(sticky, conversation(user('hi'), nobody))).toEqual(['a', 'b', 'late']);
});

test('so many conversations are remembered, and no more', () => {
  const sticky = new StickyRoutes();
  for (let each = 0; each <= 10_000; each += 1) sticky.took(conversation(user(`${each}`)), b.name, 2);
  expect(namesOf(sticky, again('0'))).toEqual(['a', 'b', 'late']);
  expect(namesOf(sticky, again('1'))).toEqual(['b', 'a', 'late']);
});
