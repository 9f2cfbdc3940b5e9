import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { describe, expect, test } from 'vitest';
import { GatewayError } from '../../errors/gateway-error.ts';
import { type ItemSchema, Role } from '../../gen/tollgate/v1/content_pb.ts';
import { Endpoint, GenerateRequestSchema, ToolChoiceMode } from '../../gen/tollgate/v1/request_pb.ts';
import { checkRequest } from './check-request.ts';

type Init = MessageInitShape<typeof GenerateRequestSchema>;
type ItemInit = MessageInitShape<typeof ItemSchema>;

const says = (role: Role, text: string): ItemInit => ({
  content: { case: 'message', value: { role, parts: [{ content: { case: 'text', value: { text } } }] } },
});
const user = says(Role.USER, 'hi');
const tool = (name: string) => ({ tool: { case: 'function' as const, value: { name, parametersJson: '{}' } } });

/** Returns the code and field of the error; undefined if the request passes. */
function refusal(init: Init): [string, string | undefined] | undefined {
  try {
    checkRequest(create(GenerateRequestSchema, { endpoint: Endpoint.CHAT_COMPLETIONS, ...init }));
    return undefined;
  } catch (thrown) {
    if (!(thrown instanceof GatewayError)) throw thrown;
    return [thrown.code, thrown.facts.param];
  }
}

describe('checkRequest', () => {
  test.each<[string, Init]>([
    ['a question', { items: [user] }],
    ['a prefill', { items: [user, says(Role.ASSISTANT, 'So')] }],
    [
      'the ends of all ranges',
      {
        items: [user],
        sampling: { temperature: 2, topP: 0, frequencyPenalty: -2, presencePenalty: 2, topLogprobs: 20 },
      },
    ],
    [
      'a named tool',
      { items: [user], tools: [tool('f')], toolChoice: { mode: ToolChoiceMode.NAMED, tools: [{ name: 'f' }] } },
    ],
  ])('%s passes', (_, init) => {
    expect(refusal(init)).toBeUndefined();
  });

  test.each<[string, Init, string, string]>([
    ['no items', { items: [] }, 'validation_error', 'messages'],
    ['an empty item', { items: [{}] }, 'validation_error', 'messages.0'],
    ['a message without a role', { items: [user, says(Role.UNSPECIFIED, 'x')] }, 'validation_error', 'messages.1.role'],
    ['temperature over 2', { items: [user], sampling: { temperature: 2.1 } }, 'validation_error', 'temperature'],
    [
      'a temperature that is not a number',
      { items: [user], sampling: { temperature: Number.NaN } },
      'validation_error',
      'temperature',
    ],
    ['top_p below 0', { items: [user], sampling: { topP: -0.1 } }, 'validation_error', 'top_p'],
    ['an output limit of 0', { items: [user], maxOutputTokens: 0 }, 'validation_error', 'max_completion_tokens'],
    ['no candidates', { items: [user], candidates: 0 }, 'validation_error', 'n'],
    ['an empty stop sequence', { items: [user], stop: [''] }, 'validation_error', 'stop'],
    ['two tools of one name', { items: [user], tools: [tool('f'), tool('f')] }, 'validation_error', 'tools.1'],
    [
      'a choice of an unknown tool',
      { items: [user], tools: [tool('f')], toolChoice: { mode: ToolChoiceMode.NAMED, tools: [{ name: 'g' }] } },
      'validation_error',
      'tool_choice',
    ],
    [
      'a forced call without tools',
      { items: [user], toolChoice: { mode: ToolChoiceMode.REQUIRED } },
      'validation_error',
      'tool_choice',
    ],
    [
      'a thinking budget over the limit',
      { items: [user], maxOutputTokens: 100, reasoning: { budgetTokens: 100 } },
      'validation_error',
      'thinking.budget_tokens',
    ],
  ])('%s is refused', (_, init, code, param) => {
    expect(refusal(init)).toEqual([code, param]);
  });

  test('fields have the names of the caller’s interface', () => {
    expect(refusal({ items: [], endpoint: Endpoint.RESPONSES })).toEqual(['validation_error', 'input']);
    expect(refusal({ items: [], endpoint: Endpoint.UNSPECIFIED })).toEqual(['validation_error', 'items']);
    expect(refusal({ items: [user], maxOutputTokens: 0, endpoint: Endpoint.MESSAGES })).toEqual([
      'validation_error',
      'max_tokens',
    ]);
  });
});
