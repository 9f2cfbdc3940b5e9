import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { describe, expect, test } from 'vitest';
import { GatewayError } from '../../errors/gateway-error.ts';
import { type Item, ItemSchema, Role } from '../../gen/tollgate/v1/content_pb.ts';
import { Endpoint } from '../../gen/tollgate/v1/request_pb.ts';
import { arrangeCalls } from './arrange-calls.ts';

type ItemInit = MessageInitShape<typeof ItemSchema>;

const says = (role: Role, text: string, turn = 0): ItemInit => ({
  turn,
  content: { case: 'message', value: { role, parts: [{ content: { case: 'text', value: { text } } }] } },
});
const user = says(Role.USER, 'hi');
const calls = (callId: string, turn = 0): ItemInit => ({
  turn,
  content: { case: 'toolCall', value: { callId, name: 'f', arguments: '{}' } },
});
const answers = (callId: string): ItemInit => ({ content: { case: 'toolResult', value: { callId, plain: true } } });

function makeItems(...inits: ItemInit[]): Item[] {
  return inits.map(init => create(ItemSchema, init));
}

const roles: Readonly<Partial<Record<Role, string>>> = {
  [Role.USER]: 'user',
  [Role.DEVELOPER]: 'developer',
  [Role.ASSISTANT]: 'assistant',
};

/** Returns the items, each as a word or two. */
function names(items: readonly Item[]): string {
  return items
    .map(({ content }) => {
      if (content.case === 'toolCall') return `call ${content.value.callId}`;
      if (content.case === 'toolResult') return `result ${content.value.callId}`;
      return content.case === 'message' ? (roles[content.value.role] ?? '') : String(content.case);
    })
    .join(', ');
}

const arrange = (...inits: ItemInit[]): string => names(arrangeCalls(makeItems(...inits), Endpoint.CHAT_COMPLETIONS));

/** Returns the code, field and message of the error; "passes" if there is none. */
function refusal(...inits: ItemInit[]): string {
  try {
    arrange(...inits);
  } catch (thrown) {
    if (thrown instanceof GatewayError) return `${thrown.code} ${thrown.facts.param ?? ''}: ${thrown.message}`;
    throw thrown;
  }
  return 'passes';
}

describe('results of calls', () => {
  test('that follow their calls stay in place', () => {
    const items = makeItems(user, calls('a'), calls('b'), answers('b'), answers('a'), user);
    expect(arrangeCalls(items, Endpoint.RESPONSES)).toBe(items);
    const turn = makeItems(user, calls('a', 2), says(Role.ASSISTANT, 'So', 2), answers('a'));
    expect(arrangeCalls(turn, Endpoint.RESPONSES)).toBe(turn);
  });

  test('are moved after all calls of their turn, followed by the items that were in between', () => {
    expect(arrange(calls('a'), user, answers('a'))).toBe('call a, result a, user');
    expect(arrange(calls('a'), calls('b'), user, answers('b'), user, answers('a'))).toBe(
      'call a, call b, result a, result b, user, user',
    );
    expect(arrange(calls('a', 1), says(Role.ASSISTANT, 'x', 2), answers('a'))).toBe('call a, result a, assistant');
    expect(arrange(calls('a', 1), calls('b', 2), answers('a'), answers('b'))).toBe(
      'call a, result a, call b, result b',
    );
    expect(arrange(calls('a'), says(Role.DEVELOPER, 'x'), answers('a'))).toBe('call a, result a, developer');
  });

  test('a repeated id refers to the next call', () => {
    expect(arrange(calls('a'), user, answers('a'), calls('a'), user, answers('a'))).toBe(
      'call a, result a, user, call a, result a, user',
    );
  });

  test.each<[string, ItemInit[]]>([
    ['a result without a call', [user, answers('a')]],
    ['a result before its call', [user, answers('a'), calls('a')]],
    ['two results of one call', [user, calls('a'), answers('a'), answers('a')]],
    ['a call without a result', [user, calls('a'), user]],
    ['a call without a result at the end', [user, calls('a')]],
    ['a call whose id is used again before its result', [user, calls('a'), calls('a'), answers('a')]],
  ])('%s is refused', (_, inits) => {
    expect(refusal(...inits)).toMatch(/^unsupported_parameter messages: /);
  });

  test('TR-04: a call without a result is refused with its id, and so is a result without a call', () => {
    expect(refusal(user, calls('t1'), calls('t2'), answers('t1'), user)).toBe(
      'unsupported_parameter messages: The call "t2" of f has no result before the conversation continues.',
    );
    expect(refusal(user, calls('t1'))).toBe(
      'unsupported_parameter messages: The call "t1" of f has no result before the conversation continues.',
    );
    expect(refusal(user, answers('t1'))).toBe(
      'unsupported_parameter messages: The tool result for call "t1" (entry 1) belongs to no earlier call.',
    );
  });
});

test('an equal repeated result is sent once; a different result for the same call is refused', () => {
  const repeated = makeItems(user, calls('a'), answers('a'), user, answers('a'), calls('a'), answers('a'));
  expect(names(arrangeCalls(repeated, Endpoint.RESPONSES))).toBe('user, call a, result a, user, call a, result a');
  const result: ItemInit = {
    content: {
      case: 'toolResult',
      value: { callId: 'a', plain: true, parts: [{ content: { case: 'text', value: { text: 'else' } } }] },
    },
  };
  expect(() => arrangeCalls(makeItems(calls('a'), answers('a'), result), Endpoint.RESPONSES)).toThrow(GatewayError);
});
