/** The AI SDK with its Anthropic provider, against a running gateway. */
import { createAnthropic } from '@ai-sdk/anthropic';
import { APICallError, generateText, isStepCount, streamText, tool } from 'ai';
import { afterAll, expect, test } from 'vitest';
import { z } from 'zod';
import { payg } from '../e2e/chat-client.ts';
import { makePng } from '../e2e/sample-image.ts';
import { endTarget, startTarget } from './second-gateway.ts';

const gateway = await startTarget();
afterAll(() => endTarget(gateway));

const provider = createAnthropic({ baseURL: `${gateway.url}/v1`, apiKey: gateway.apiKey });
const model = provider(payg);

test('generateText gives text, finish and usage', async () => {
  const result = await generateText({ model, instructions: 'You are brief.', prompt: 'Toll?\n!sim tokens=30' });
  expect(result.text).not.toBe('');
  expect(result.finishReason).toBe('stop');
  expect(result.usage.outputTokens).toBe(30);
});

test('streamText gives the same text in deltas, and usage', async () => {
  const result = streamText({ model, prompt: 'Tell me about bridges.\n!sim tokens=200' });
  let text = '';
  let count = 0;
  for await (const delta of result.textStream) {
    text += delta;
    count += 1;
  }
  expect(count).toBeGreaterThan(10);
  expect(await result.text).toBe(text);
  expect((await result.usage).outputTokens).toBe(200);
});

test('the SDK runs tool calls and sends their results, streamed and not', async () => {
  const cities: string[] = [];
  const tools = {
    get_weather: tool({
      description: 'The weather of a city',
      inputSchema: z.object({ city: z.string() }),
      execute: ({ city }) => {
        cities.push(city);
        return `Sunny in ${city}`;
      },
    }),
  };
  const prompt = 'Weather in Paris and Rome?\n!sim calls=2';
  const settings = { model, tools, prompt, stopWhen: isStepCount(3) };
  const whole = await generateText(settings);
  expect(whole.finishReason).toBe('stop');
  const streamed = streamText(settings);
  expect(await streamed.finishReason).toBe('stop');
  expect(cities).toHaveLength(4);
});

test('reasoning is returned, and an image is accepted', async () => {
  const data = await makePng(20, 10, 'blue');
  const result = await generateText({
    model,
    messages: [
      {
        role: 'user',
        content: [
          { type: 'file', mediaType: 'image/png', data },
          { type: 'text', text: 'What is this?\n!sim say=A square.' },
        ],
      },
    ],
    maxOutputTokens: 3000,
    providerOptions: { anthropic: { thinking: { type: 'enabled', budgetTokens: 1024 } } },
  });
  expect(result.text).toBe('A square.');
  expect(result.finalStep.reasoningText).not.toBe('');
});

test('an error carries its status and message', async () => {
  const failing = generateText({ model: provider('acme/unknown'), prompt: 'Hello', maxRetries: 0 });
  const failure = await failing.catch((error: unknown) => error);
  expect(failure).toBeInstanceOf(APICallError);
  expect(failure).toMatchObject({ statusCode: 400, isRetryable: false });
});
