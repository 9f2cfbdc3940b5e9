/** Runs of `@openai/agents` in chat mode and with Responses against a running gateway. */
import { Agent, OpenAIProvider, Runner, setTracingDisabled, tool } from '@openai/agents';
import { afterAll, describe, expect, test } from 'vitest';
import { z } from 'zod';
import { payg } from '../e2e/chat-client.ts';
import { endTarget, startTarget } from './second-gateway.ts';

const gateway = await startTarget();
afterAll(() => endTarget(gateway));

setTracingDisabled(true);

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

describe.each([{ useResponses: false }, { useResponses: true }])('useResponses: $useResponses', ({ useResponses }) => {
  const runner = new Runner({
    modelProvider: new OpenAIProvider({ apiKey: gateway.apiKey, baseURL: `${gateway.url}/v1`, useResponses }),
    tracingDisabled: true,
  });

  test('an agent answers in text', async () => {
    const agent = new Agent({ name: 'Guide', instructions: 'You are brief.', model: payg });
    const result = await runner.run(agent, 'What is a toll gate?\n!sim tokens=30');
    expect(result.finalOutput).not.toBe('');
    expect(result.state.usage.outputTokens).toBe(30);
  });

  test('an agent calls its tools in parallel and answers with their results', async () => {
    cities.length = 0;
    const agent = new Agent({ name: 'Forecaster', instructions: 'Use the tools.', model: payg, tools: [weather] });
    const result = await runner.run(agent, 'What is the weather in Paris and in Oslo?\n!sim calls=2');
    expect(cities).toHaveLength(2);
    expect(result.finalOutput).toContain('Sunny');
  });

  test('a streamed run gives deltas, tool events and the same final output', async () => {
    cities.length = 0;
    const agent = new Agent({ name: 'Forecaster', instructions: 'Use the tools.', model: payg, tools: [weather] });
    const result = await runner.run(agent, 'The weather in Rome, please.\n!sim calls=1', { stream: true });
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

  test('keep-alive comments in a quiet stream do not break the run', async () => {
    const agent = new Agent({ name: 'Guide', instructions: 'You are brief.', model: payg });
    const result = await runner.run(agent, 'Hi\n!sim delay_ms=300 say=quiet at first', { stream: true });
    await result.completed;
    expect(result.finalOutput).toBe('quiet at first');
  });

  test('a hand-off goes to the other agent, which answers', async () => {
    const poet = new Agent({
      name: 'Poet',
      instructions: 'You write verse.',
      model: payg,
      handoffDescription: 'Writes poems',
    });
    const triage = Agent.create({
      name: 'Triage',
      instructions: 'Hand over to the right agent.',
      model: payg,
      handoffs: [poet],
    });
    const result = await runner.run(triage, 'Transfer me to the poet.\n!sim calls=1');
    expect(result.lastAgent?.name).toBe('Poet');
    expect(result.finalOutput).not.toBe('');
  });

  test('structured output has the type that the agent declares', async () => {
    const Verdict = z.object({ good: z.boolean(), reason: z.string() });
    const agent = new Agent({ name: 'Judge', instructions: 'Judge.', model: payg, outputType: Verdict });
    const result = await runner.run(agent, 'Is this a good text?');
    expect(Verdict.safeParse(result.finalOutput).success).toBe(true);
  });

  test('a failing upstream rejects the run', async () => {
    const agent = new Agent({ name: 'Guide', instructions: 'You are brief.', model: payg });
    await expect(runner.run(agent, 'Hello\n!sim status=400')).rejects.toMatchObject({ status: 400 });
  });
});
