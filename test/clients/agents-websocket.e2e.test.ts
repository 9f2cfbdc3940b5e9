/** Runs of `@openai/agents` over the WebSocket transport against a running gateway. */
import { Agent, OpenAIProvider, Runner, setTracingDisabled, tool } from '@openai/agents';
import { afterAll, expect, test } from 'vitest';
import { z } from 'zod';
import { payg } from '../e2e/chat-client.ts';
import { endTarget, startTarget } from './second-gateway.ts';

const gateway = await startTarget();
const provider = new OpenAIProvider({
  apiKey: gateway.apiKey,
  baseURL: `${gateway.url}/v1`,
  useResponses: true,
  useResponsesWebSocket: true,
});
afterAll(async () => {
  await provider.close();
  await endTarget(gateway);
});

setTracingDisabled(true);
const runner = new Runner({ modelProvider: provider, tracingDisabled: true });

const cities: string[] = [];
const weather = tool({
  name: 'get_weather',
  description: 'The weather of a city',
  parameters: z.object({ city: z.string() }),
  execute: ({ city }) => {
    cities.push(city);
    return `Sunny in ${city}`;
  },
});
const forecaster = new Agent({ name: 'Forecaster', instructions: 'Use the tools.', model: payg, tools: [weather] });

test('an agent answers in text', async () => {
  const agent = new Agent({ name: 'Guide', instructions: 'You are brief.', model: payg });
  const result = await runner.run(agent, 'What is a toll gate?\n!sim tokens=30');
  expect(result.finalOutput).not.toBe('');
  expect(result.state.usage.outputTokens).toBe(30);
});

test('an agent calls its tools in parallel and answers with their results', async () => {
  cities.length = 0;
  const result = await runner.run(forecaster, 'What is the weather in Paris and in Oslo?\n!sim calls=2');
  expect(cities).toHaveLength(2);
  expect(result.finalOutput).toContain('Sunny');
});

test('a streamed run gives deltas, tool events and the same final output', async () => {
  cities.length = 0;
  const result = await runner.run(forecaster, 'The weather in Rome, please.\n!sim calls=1', { stream: true });
  const kinds = new Set<string>();
  let text = '';
  for await (const event of result) {
    if (event.type === 'run_item_stream_event') kinds.add(event.item.type);
    if (event.type === 'raw_model_stream_event' && event.data.type === 'output_text_delta') text += event.data.delta;
  }
  await result.completed;
  expect([...kinds]).toEqual(
    expect.arrayContaining(['tool_call_item', 'tool_call_output_item', 'message_output_item']),
  );
  expect(cities).toHaveLength(1);
  expect(text).toContain('Sunny');
  expect(result.finalOutput).toBe(text);
});

test('a conversation continues from the previous response, stored or not', async () => {
  for (const store of [true, false]) {
    const agent = new Agent({ name: 'Guide', instructions: 'You are brief.', model: payg, modelSettings: { store } });
    const first = await runner.run(agent, '!sim say=One.');
    const previousResponseId = first.lastResponseId ?? '';
    expect(previousResponseId).toMatch(/^resp_/);
    const second = await runner.run(agent, '!sim say=Two.', { previousResponseId });
    expect(second.finalOutput).toBe('Two.');
    expect(second.state.usage.inputTokens).toBeGreaterThan(first.state.usage.inputTokens);
  }
});

test('a failing upstream rejects the run, and the next one works', async () => {
  const agent = new Agent({ name: 'Guide', instructions: 'You are brief.', model: payg });
  await expect(runner.run(agent, '!sim status=400')).rejects.toThrow();
  expect((await runner.run(agent, '!sim say=Again.')).finalOutput).toBe('Again.');
});
