/** Stored conversations with the unmodified official client and the session store of `@openai/agents`. */
import { Agent, OpenAIConversationsSession, OpenAIProvider, Runner, setTracingDisabled, tool } from '@openai/agents';
import { OpenAI } from 'openai';
import { afterAll, describe, expect, test } from 'vitest';
import { z } from 'zod';
import { endGateway } from '../gateway.ts';
import { startGateway } from '../hosted-gateway.ts';

const gateway = await startGateway({ config: 'simulator: { tokens_per_second: 0 }\n' });
afterAll(() => endGateway(gateway));

setTracingDisabled(true);
const model = 'sim/large';
const baseURL = `${gateway.url}/v1`;
const client = new OpenAI({ baseURL, apiKey: gateway.apiKey, maxRetries: 0 });

async function textsIn(conversation: string): Promise<string[]> {
  const texts: string[] = [];
  for await (const item of client.conversations.items.list(conversation, { order: 'asc', limit: 2 })) {
    if (item.type !== 'message') texts.push(item.type);
    else texts.push(item.content.map(part => ('text' in part ? part.text : part.type)).join(''));
  }
  return texts;
}

describe('openai', () => {
  test('conversations and their items, over several pages', async () => {
    const made = await client.conversations.create({
      items: [{ role: 'user', content: 'one' }],
      metadata: { a: 'b' },
    });
    expect(made).toMatchObject({ object: 'conversation', metadata: { a: 'b' } });
    const added = await client.conversations.items.create(made.id, {
      items: [
        { role: 'user', content: 'two' },
        { role: 'user', content: 'three' },
      ],
    });
    expect(await textsIn(made.id)).toEqual(['one', 'two', 'three']);
    const second = added.data[0]?.id ?? '';
    expect(await client.conversations.items.retrieve(second, { conversation_id: made.id })).toMatchObject({
      id: second,
    });
    await client.conversations.items.delete(second, { conversation_id: made.id });
    expect(await textsIn(made.id)).toEqual(['one', 'three']);
    expect((await client.conversations.update(made.id, { metadata: { c: 'd' } })).metadata).toEqual({ c: 'd' });
    expect((await client.conversations.retrieve(made.id)).metadata).toEqual({ c: 'd' });
    expect((await client.conversations.delete(made.id)).deleted).toBe(true);
    await expect(client.conversations.retrieve(made.id)).rejects.toMatchObject({ status: 404 });
  });

  test('responses in a conversation, whole and streamed', async () => {
    const { id } = await client.conversations.create();
    const whole = await client.responses.create({ model, input: '!sim say=first', conversation: id });
    expect(whole.conversation).toEqual({ id });
    const stream = client.responses.stream({ model, input: '!sim say=second', conversation: { id } });
    expect((await stream.finalResponse()).conversation).toEqual({ id });
    expect(await textsIn(id)).toEqual(['!sim say=first', 'first', '!sim say=second', 'second']);
  });
});

describe('the session of openai-agents', () => {
  const weather = tool({
    name: 'get_weather',
    description: 'The weather of a city',
    parameters: z.object({ city: z.string() }),
    execute: ({ city }) => `Sunny in ${city}`,
  });
  const runner = new Runner({
    modelProvider: new OpenAIProvider({ apiKey: gateway.apiKey, baseURL, useResponses: true }),
    tracingDisabled: true,
  });
  const agent = new Agent({ name: 'Guide', instructions: 'Use the tools.', model, tools: [weather] });

  test.each([false, true])('keeps the content, calls included (streamed: %s)', async stream => {
    const session = new OpenAIConversationsSession({ client });
    const run = async (input: string): Promise<string> => {
      if (!stream) return String((await runner.run(agent, input, { session })).finalOutput);
      const result = await runner.run(agent, input, { session, stream: true });
      await result.completed;
      return String(result.finalOutput);
    };
    expect(await run('The weather in Rome, please.\n!sim calls=1')).toContain('Sunny');
    expect(await run('!sim say=And good bye.')).toBe('And good bye.');
    const kept = await session.getItems();
    const kinds = kept.map(item => ('role' in item ? item.role : item.type));
    expect(kinds).toEqual(['user', 'function_call', 'function_call_result', 'assistant', 'user', 'assistant']);
    expect(await session.getItems(1)).toHaveLength(1);
    const last = await session.popItem();
    expect(last).toMatchObject({ role: 'assistant' });
    expect(await session.getItems()).toHaveLength(5);
    await session.clearSession();
  });
});
