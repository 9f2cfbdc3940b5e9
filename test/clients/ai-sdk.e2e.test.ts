/** Conversations of the AI SDK, with its OpenAI provider in both modes and with the providers for compatible services. */
import { createOpenResponses } from '@ai-sdk/open-responses';
import { createOpenAI } from '@ai-sdk/openai';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { APICallError, generateText, isStepCount, Output, streamText, tool } from 'ai';
import { afterAll, describe, expect, test } from 'vitest';
import { z } from 'zod';
import { RecordState } from '../../src/gen/tollgate/v1/account_pb.ts';
import { payg } from '../e2e/chat-client.ts';
import { makePng } from '../e2e/sample-image.ts';
import { readRecord } from '../gateway.ts';
import { endTarget, startTarget } from './second-gateway.ts';

const gateway = await startTarget();
afterAll(() => endTarget(gateway));

const settings = { baseURL: `${gateway.url}/v1`, apiKey: gateway.apiKey };
const compatible = createOpenAICompatible({
  ...settings,
  name: 'tollgate',
  includeUsage: true,
  supportsStructuredOutputs: true,
});
const openResponses = createOpenResponses({ ...settings, name: 'tollgate', url: `${gateway.url}/v1/responses` });
const models = [
  { name: '@ai-sdk/openai', model: createOpenAI(settings).chat(payg) },
  { name: '@ai-sdk/openai with Responses', model: createOpenAI(settings).responses(payg) },
  { name: '@ai-sdk/open-responses', model: openResponses(payg) },
  { name: '@ai-sdk/openai-compatible', model: compatible(payg) },
] as const;

const weather = (cities: string[]): { get_weather: ReturnType<typeof weatherTool> } => ({
  get_weather: weatherTool(cities),
});
function weatherTool(cities: string[]) {
  return tool({
    description: 'The weather of a city',
    inputSchema: z.object({ city: z.string() }),
    execute: ({ city }) => {
      cities.push(city);
      return `Sunny in ${city}, 21 degrees`;
    },
  });
}

const Person = z.object({ name: z.string(), age: z.number().int(), languages: z.array(z.string()) });

describe.each(models)('$name', ({ model }) => {
  test('generateText gives text, finish and usage', async () => {
    const result = await generateText({
      model,
      instructions: 'You are brief.',
      prompt: 'What is a toll gate?\n!sim tokens=30',
    });
    expect(result.text).not.toBe('');
    expect(result.finishReason).toBe('stop');
    expect(result.usage.outputTokens).toBe(30);
    expect(result.usage.totalTokens).toBe((result.usage.inputTokens ?? 0) + 30);
    expect(result.warnings ?? []).toEqual([]);
  });

  test('streamText gives the same text in deltas, and usage', async () => {
    const result = streamText({ model, prompt: 'Tell me about bridges.\n!sim tokens=200' });
    const kinds: string[] = [];
    let text = '';
    for await (const part of result.stream) {
      kinds.push(part.type);
      if (part.type === 'text-delta') text += part.text;
    }
    expect(kinds.filter(kind => kind === 'text-delta').length).toBeGreaterThan(10);
    expect(kinds).not.toContain('error');
    expect(text).toBe(await result.text);
    expect((await result.usage).outputTokens).toBe(200);
    expect(await result.finishReason).toBe('stop');
  });

  test('keep-alive comments in a quiet stream do not break the client', async () => {
    const result = streamText({ model, prompt: 'Hi\n!sim delay_ms=300 tokens=6 tps=10' });
    const kinds = new Set<string>();
    for await (const part of result.stream) kinds.add(part.type);
    expect(kinds).not.toContain('error');
    expect((await result.usage).outputTokens).toBe(6);
  });

  test('generateText runs tools and ends with text', async () => {
    const cities: string[] = [];
    const result = await generateText({
      model,
      tools: weather(cities),
      stopWhen: isStepCount(4),
      prompt: 'What is the weather in Paris and in Oslo?\n!sim calls=2',
    });
    expect(result.steps.map(({ finishReason }) => finishReason)).toEqual(['tool-calls', 'stop']);
    expect(cities).toHaveLength(2);
    expect(result.text).toContain('Sunny');
  });

  test('streamText runs tools and ends with text', async () => {
    const cities: string[] = [];
    const result = streamText({
      model,
      tools: weather(cities),
      stopWhen: isStepCount(4),
      prompt: 'What is the weather in Paris?\n!sim calls=1',
    });
    await result.consumeStream();
    const steps = await result.steps;
    expect(steps.map(({ finishReason }) => finishReason)).toEqual(['tool-calls', 'stop']);
    expect(cities).toHaveLength(1);
    expect(await result.text).toContain('Sunny');
  });

  test('structured output matches the schema, whole and streamed', async () => {
    const output = Output.object({ schema: Person });
    const whole = await generateText({ model, output, prompt: 'Invent a person.' });
    expect(Person.safeParse(whole.output).success).toBe(true);
    const streamed = streamText({ model, output, prompt: 'Invent a person.' });
    let partial = 0;
    for await (const each of streamed.partialOutputStream) partial += each === undefined ? 0 : 1;
    expect(partial).toBeGreaterThan(0);
    expect(Person.safeParse(await streamed.output).success).toBe(true);
  });

  test('the model sees the size and colour of an image', async () => {
    const { text } = await generateText({
      model,
      messages: [
        {
          role: 'user',
          content: [
            { type: 'text', text: 'What is in this image?' },
            { type: 'file', mediaType: 'image/png', data: await makePng(80, 60, '#0000ff') },
          ],
        },
      ],
    });
    expect(text).toMatch(/80\s*[x×]\s*60/);
    expect(text).toMatch(/blue/i);
  });

  test('an abort ends the stream, and what was delivered is charged', async () => {
    const leave = new AbortController();
    const result = streamText({ model, prompt: 'Go on\n!sim tokens=4000 tps=100', abortSignal: leave.signal });
    const kinds: string[] = [];
    let requestId: string | undefined;
    for await (const part of result.stream) {
      kinds.push(part.type);
      if (kinds.filter(kind => kind === 'text-delta').length === 5) leave.abort();
    }
    expect(kinds.at(-1)).toBe('abort');
    // An aborted result has no headers, so the newest record is used.
    await expect
      .poll(async () => {
        const [newest] = (await gateway.account.listActivity({ limit: 1 })).records;
        requestId = newest?.requestId;
        return newest?.state;
      })
      .toBe(RecordState.CLIENT_ABORTED);
    expect((await readRecord(gateway, requestId ?? '')).usage?.outputTokens).toBeLessThan(400);
  });

  test('an error is an APICallError with status and body, and is not retried if a retry can’t help', async () => {
    const failure = await generateText({ model, prompt: 'Hello\n!sim nonsense=1' }).catch((error: unknown) => error);
    if (!APICallError.isInstance(failure)) throw failure;
    expect(failure).toMatchObject({ statusCode: 400, isRetryable: false });
    // One of the providers reads the message of an error only if it has a `param`.
    expect(failure.responseBody).toContain('nonsense');
  });

  test('an error in a stream is an error part', async () => {
    const result = streamText({ model, prompt: 'Hello\n!sim tokens=50 fail=3', onError: () => undefined });
    const kinds: string[] = [];
    for await (const part of result.stream) kinds.push(part.type);
    expect(kinds).toContain('error');
  });
});

test('the compatible provider has reasoning before the text', async () => {
  const result = await generateText({ model: compatible(payg), reasoning: 'medium', prompt: 'What is 17 times 23?' });
  expect(result.finalStep.reasoningText ?? '').not.toBe('');
  expect(result.usage.outputTokenDetails.reasoningTokens).toBeGreaterThan(0);
  const streamed = streamText({ model: compatible(payg), reasoning: 'low', prompt: 'What is 17 times 23?' });
  const kinds: string[] = [];
  for await (const part of streamed.stream) kinds.push(part.type);
  expect(kinds.indexOf('reasoning-delta')).toBeGreaterThan(-1);
  expect(kinds.indexOf('reasoning-end')).toBeLessThan(kinds.indexOf('text-start'));
});
