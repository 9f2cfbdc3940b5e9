/** Conversations of LangChain's `ChatAnthropic` with a running gateway. */
import { ChatAnthropic, type ChatAnthropicInput } from '@langchain/anthropic';
import { type AIMessageChunk, HumanMessage, SystemMessage, ToolMessage } from '@langchain/core/messages';
import { tool } from '@langchain/core/tools';
import { afterAll, expect, test } from 'vitest';
import { z } from 'zod';
import { payg } from '../e2e/chat-client.ts';
import { endTarget, startTarget } from './second-gateway.ts';

const gateway = await startTarget();
afterAll(() => endTarget(gateway));

const makeModel = (fields: ChatAnthropicInput = {}): ChatAnthropic =>
  new ChatAnthropic({
    model: payg,
    apiKey: gateway.apiKey,
    anthropicApiUrl: gateway.url,
    maxRetries: 0,
    maxTokens: 1000,
    ...fields,
  });

const weather = tool(({ city }) => `Sunny in ${city}`, {
  name: 'get_weather',
  description: 'The weather of a city',
  schema: z.object({ city: z.string() }),
});

test('invoke answers a conversation with usage', async () => {
  const answer = await makeModel().invoke([
    new SystemMessage('You are brief.'),
    new HumanMessage('What is a toll gate?\n!sim tokens=30'),
  ]);
  expect(answer.text).not.toBe('');
  expect(answer.usage_metadata).toMatchObject({ output_tokens: 30 });
  expect(answer.response_metadata).toMatchObject({ stop_reason: 'end_turn' });
});

test('stream gives chunks that concatenate to the whole, with usage', async () => {
  let whole: AIMessageChunk | undefined;
  let count = 0;
  for await (const chunk of await makeModel().stream('Tell me about bridges.\n!sim tokens=100')) {
    whole = whole === undefined ? chunk : whole.concat(chunk);
    count += 1;
  }
  expect(count).toBeGreaterThan(10);
  expect(whole?.text).not.toBe('');
  expect(whole?.usage_metadata).toMatchObject({ output_tokens: 100 });
});

test('calls are parsed, and the conversation continues with their results', async () => {
  const model = makeModel().bindTools([weather]);
  const ask = new HumanMessage('Weather in Paris and Rome?\n!sim calls=2');
  const answer = await model.invoke([ask]);
  expect(answer.tool_calls?.map(({ name }) => name)).toEqual(['get_weather', 'get_weather']);
  const results = (answer.tool_calls ?? []).map(
    ({ id = '' }) => new ToolMessage({ content: 'Sunny', tool_call_id: id }),
  );
  const next = await model.invoke([ask, answer, ...results]);
  expect(next.tool_calls).toEqual([]);
  expect(next.text).not.toBe('');
});

test('thinking is part of the answer', async () => {
  const answer = await makeModel({ maxTokens: 3000, thinking: { type: 'enabled', budget_tokens: 1024 } }).invoke(
    'Why?',
  );
  const kinds = Array.isArray(answer.content) ? answer.content.map(({ type }) => type) : [];
  expect(kinds).toEqual(['thinking', 'text']);
});
