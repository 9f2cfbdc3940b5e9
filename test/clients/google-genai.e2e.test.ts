/** Conversations of the official `@google/genai` with a running gateway, built-in or through each protocol. */
import { type Content, FunctionCallingConfigMode, GoogleGenAI, type Part, Type } from '@google/genai';
import { afterAll, describe, expect, test } from 'vitest';
import { payg } from '../e2e/chat-client.ts';
import { readBalance } from '../gateway.ts';
import { endTarget, startTarget, upstreamProtocol } from './second-gateway.ts';

const upstream = upstreamProtocol();
const gateway = await startTarget();
afterAll(() => endTarget(gateway));

const client = new GoogleGenAI({ apiKey: gateway.apiKey, httpOptions: { baseUrl: gateway.url } });
const weather = {
  name: 'get_weather',
  description: 'The weather of a city',
  parameters: {
    type: Type.OBJECT,
    properties: { city: { type: Type.STRING }, unit: { type: Type.STRING, enum: ['celsius', 'fahrenheit'] } },
    required: ['city', 'unit'],
  },
};

describe('generateContent', () => {
  test('answers a conversation; the usage is whole and its cost is what was debited', async () => {
    const before = await readBalance(gateway);
    const answer = await client.models.generateContent({
      model: payg,
      contents: [
        { role: 'user', parts: [{ text: 'What is a toll gate?' }] },
        { role: 'model', parts: [{ text: 'A barrier where one pays.' }] },
        { role: 'user', parts: [{ text: 'And who pays?\n!sim tokens=30' }] },
      ],
      config: { systemInstruction: 'You are brief.', maxOutputTokens: 500 },
    });
    expect(answer.text?.length).toBeGreaterThan(10);
    expect(answer.candidates?.[0]?.finishReason).toBe('STOP');
    const usage = answer.usageMetadata as { cost: number; totalTokenCount: number } & Record<string, number>;
    expect(usage['candidatesTokenCount']).toBe(30);
    expect(usage.totalTokenCount).toBe((usage['promptTokenCount'] ?? 0) + 30);
    expect(BigInt(Math.round(usage.cost * 1e9))).toBe(before - (await readBalance(gateway)));
    if (upstream !== 'gemini') expect(answer.modelVersion).toBe(payg);
  });

  test('a stream has the same text as the whole answer, and its last chunk the finish reason and the usage', async () => {
    const request = { model: payg, contents: 'Say something.\n!sim tokens=40', config: { seed: 7 } };
    const whole = await client.models.generateContent(request);
    let text = '';
    let last;
    let finishes = 0;
    for await (const chunk of await client.models.generateContentStream(request)) {
      text += chunk.text ?? '';
      if (chunk.candidates?.[0]?.finishReason !== undefined) finishes += 1;
      last = chunk;
    }
    expect(text).toBe(whole.text);
    expect(finishes).toBe(1);
    expect(last?.usageMetadata?.candidatesTokenCount).toBe(whole.usageMetadata?.candidatesTokenCount);
  });

  test('a conversation with tools: calls are whole, results go back, the model answers', async () => {
    const contents: Content[] = [{ role: 'user', parts: [{ text: 'Weather in Oslo?' }] }];
    const config = {
      tools: [{ functionDeclarations: [weather] }],
      toolConfig: { functionCallingConfig: { mode: FunctionCallingConfigMode.ANY } },
    };
    const called = await client.models.generateContent({ model: payg, contents, config });
    const [call] = called.functionCalls ?? [];
    expect(call?.name).toBe('get_weather');
    expect(Object.keys(call?.args ?? {})).toEqual(expect.arrayContaining(['city', 'unit']));
    expect(called.candidates?.[0]?.finishReason).toBe('STOP');
    // Google's own models give calls no ids.
    const named = call?.id === undefined ? {} : { id: call.id };
    contents.push(called.candidates?.[0]?.content as Content, {
      role: 'user',
      parts: [{ functionResponse: { ...named, name: 'get_weather', response: { output: '7 degrees' } } }],
    });
    const answered = await client.models.generateContent({
      model: payg,
      contents,
      config: { tools: config.tools },
    });
    expect(answered.text).not.toBe('');
    expect(answered.candidates?.[0]?.finishReason).toBe('STOP');
  });

  test('a chat of several turns, streamed, sends back what the client keeps of each chunk', async () => {
    const chat = client.chats.create({ model: payg, config: { thinkingConfig: { includeThoughts: true } } });
    for (const message of ['One.\n!sim tokens=20', 'Two.\n!sim tokens=20', 'Three.']) {
      let parts: Part[] = [];
      for await (const chunk of await chat.sendMessageStream({ message })) {
        parts = [...parts, ...(chunk.candidates?.[0]?.content?.parts ?? [])];
      }
      expect(parts.some(part => part.thought !== true && part.text !== '')).toBe(true);
    }
  });

  test('thoughts are shown only if they are asked for', async () => {
    const contents = 'Think.\n!sim tokens=20';
    const config = { thinkingConfig: { thinkingBudget: 1024 } };
    const hidden = await client.models.generateContent({ model: payg, contents, config });
    const shown = await client.models.generateContent({
      model: payg,
      contents,
      config: { thinkingConfig: { thinkingBudget: 1024, includeThoughts: true } },
    });
    const thoughts = (answer: typeof hidden): Part[] =>
      (answer.candidates?.[0]?.content?.parts ?? []).filter(part => part.thought === true);
    expect(thoughts(hidden)).toEqual([]);
    expect(thoughts(shown).length).toBeGreaterThan(0);
  });
});

describe('other calls', () => {
  test('countTokens counts as the answer does', async () => {
    const contents = 'How many tokens is this?';
    const { totalTokens } = await client.models.countTokens({ model: payg, contents });
    expect(totalTokens).toBeGreaterThan(3);
  });

  test('models.list pages through the models, and models.get reads one', async () => {
    const names: string[] = [];
    for await (const model of await client.models.list({ config: { pageSize: 1 } })) names.push(model.name ?? '');
    expect(names).toContain(`models/${payg}`);
    expect(new Set(names).size).toBe(names.length);
    const model = await client.models.get({ model: payg });
    expect(model.supportedActions).toContain('generateContent');
  });

  test('errors are those of Google: status, code, and the reason of the gateway', async () => {
    const answer = client.models.generateContent({ model: 'no/such', contents: 'Hello' });
    await expect(answer).rejects.toMatchObject({ status: 404, message: expect.stringContaining('"model_not_found"') });
    const other = new GoogleGenAI({ apiKey: 'sk-tg-wrong', httpOptions: { baseUrl: gateway.url } });
    await expect(other.models.generateContent({ model: payg, contents: 'Hello' })).rejects.toMatchObject({
      status: 401,
      message: expect.stringContaining('UNAUTHENTICATED'),
    });
  });
});
