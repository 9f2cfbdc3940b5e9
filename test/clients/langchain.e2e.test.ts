/** Conversations of LangChain's `ChatOpenAI` with a running gateway. */
import { type AIMessageChunk, HumanMessage, SystemMessage } from '@langchain/core/messages';
import { tool } from '@langchain/core/tools';
import { ChatOpenAI, type ChatOpenAIFields } from '@langchain/openai';
import { afterAll, describe, expect, test } from 'vitest';
import { z } from 'zod';
import { payg } from '../e2e/chat-client.ts';
import { makePngUrl } from '../e2e/sample-image.ts';
import { endTarget, startTarget, upstreamProtocol } from './second-gateway.ts';

const upstream = upstreamProtocol();
const gateway = await startTarget();
afterAll(() => endTarget(gateway));

const weather = tool(({ city }) => `Sunny in ${city}`, {
  name: 'get_weather',
  description: 'The weather of a city',
  schema: z.object({ city: z.string() }),
});

describe.each([{ useResponsesApi: false }, { useResponsesApi: true }])(
  'useResponsesApi: $useResponsesApi',
  ({ useResponsesApi }) => {
    const makeModel = (fields: ChatOpenAIFields = {}): ChatOpenAI =>
      new ChatOpenAI({
        model: payg,
        apiKey: gateway.apiKey,
        maxRetries: 0,
        useResponsesApi,
        configuration: { baseURL: `${gateway.url}/v1` },
        ...fields,
      });

    test('invoke answers a conversation with usage', async () => {
      const answer = await makeModel().invoke([
        new SystemMessage('You are brief.'),
        new HumanMessage('What is a toll gate?\n!sim tokens=30'),
      ]);
      expect(answer.text).not.toBe('');
      expect(answer.usage_metadata).toMatchObject({ output_tokens: 30 });
      expect(answer.response_metadata).toMatchObject(
        useResponsesApi ? { status: 'completed' } : { finish_reason: 'stop' },
      );
    });

    test('stream gives chunks that concatenate to the whole, with usage at the end', async () => {
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

    test('keep-alive comments in a quiet stream do not break the client', async () => {
      let text = '';
      for await (const chunk of await makeModel().stream('Hi\n!sim delay_ms=300 say=quiet at first'))
        text += chunk.text;
      expect(text).toBe('quiet at first');
    });

    test('bindTools: parallel calls, their results, then text', async () => {
      const model = makeModel().bindTools([weather]);
      const question = new HumanMessage('What is the weather in Paris and in Oslo?\n!sim calls=2');
      const called = await model.invoke([question]);
      expect(called.tool_calls).toHaveLength(2);
      const results = await Promise.all(
        (called.tool_calls ?? []).map(call => weather.invoke({ ...call, type: 'tool_call' })),
      );
      const answer = await model.invoke([question, called, ...results]);
      expect(answer.tool_calls).toEqual([]);
      expect(answer.text).toContain('Sunny');
    });

    test('streamed calls concatenate to valid calls', async () => {
      let whole: AIMessageChunk | undefined;
      for await (const chunk of await makeModel().bindTools([weather]).stream('The weather in Rome?\n!sim calls=2')) {
        whole = whole === undefined ? chunk : whole.concat(chunk);
      }
      expect(whole?.tool_calls?.map(({ name, args }) => [name, Object.keys(args)])).toEqual([
        ['get_weather', ['city']],
        ['get_weather', ['city']],
      ]);
      expect(whole?.invalid_tool_calls).toEqual([]);
    });

    const Person = z.object({ name: z.string(), age: z.number().int() });

    /** Messages has no JSON mode: such an upstream gets only an instruction in words, which the built-in models ignore. */
    const methods = ['jsonSchema', 'functionCalling', ...(upstream === 'messages' ? [] : ['jsonMode'])] as const;
    test.each(methods as readonly ('jsonSchema' | 'functionCalling' | 'jsonMode')[])(
      'withStructuredOutput by %s',
      async method => {
        const model = makeModel().withStructuredOutput(method === 'jsonMode' ? z.looseObject({}) : Person, {
          name: 'person',
          method,
        });
        const value = await model.invoke('Invent a person, as JSON.');
        if (method === 'jsonMode') expect(value).toBeTypeOf('object');
        else expect(Person.safeParse(value).success).toBe(true);
      },
    );

    test('the model sees the size and colour of an image', async () => {
      const answer = await makeModel().invoke([
        new HumanMessage({
          content: [
            { type: 'text', text: 'What is in this image?' },
            { type: 'image_url', image_url: { url: await makePngUrl(50, 40, '#00ff00') } },
          ],
        }),
      ]);
      expect(answer.text).toMatch(/50\s*[x×]\s*40/);
      expect(answer.text).toMatch(/green|lime/i);
    });

    test('limit and tier are passed on, and stop if the interface has it', async () => {
      const stopped = await makeModel().invoke('Count\n!sim say=one two three', { stop: [' two'] });
      expect(stopped.text).toBe(useResponsesApi ? 'one two three' : 'one');
      const cut = await makeModel({ maxTokens: 16 }).invoke('Write a long text.');
      const ended = { status: 'incomplete', incomplete_details: { reason: 'max_output_tokens' } };
      expect(cut.response_metadata).toMatchObject(useResponsesApi ? ended : { finish_reason: 'length' });
      expect(cut.usage_metadata).toMatchObject({ output_tokens: 16 });
      const flex = await makeModel({ service_tier: 'flex' }).invoke('Hello');
      if (useResponsesApi) {
        expect(flex.response_metadata).toMatchObject({ service_tier: 'flex' });
        return;
      }
      const standard = await makeModel().invoke('Hello');
      const readCost = (answer: typeof flex): number =>
        (answer.response_metadata as { usage: { cost: number } }).usage.cost;
      expect(readCost(flex)).toBeCloseTo(readCost(standard) / 2, 9);
    });

    test('an abort ends a stream', async () => {
      const leave = new AbortController();
      const read = async (): Promise<void> => {
        const stream = await makeModel().stream('Go on\n!sim tokens=4000 tps=100', { signal: leave.signal });
        for await (const chunk of stream) if (chunk.text !== '') leave.abort();
      };
      await expect(read()).rejects.toThrow(/abort/i);
    });

    test('errors carry status and code', async () => {
      const failure = await makeModel({ model: 'acme/unknown' })
        .invoke('Hello')
        .catch((error: unknown) => error);
      expect(failure).toMatchObject({ status: 400, code: 'model_not_found' });
      const broken = makeModel().invoke('Hello\n!sim status=500');
      await expect(broken).rejects.toMatchObject({ status: 502 });
    });
  },
);
