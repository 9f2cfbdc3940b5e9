/** The API reference: an OpenAPI linter accepts it, and it describes what the official clients send and receive. */
import Anthropic from '@anthropic-ai/sdk';
import { createConfig, lint } from '@redocly/openapi-core';
import OpenAI from 'openai';
import { afterAll, expect, test } from 'vitest';
import { openApiDocPath, openApiText } from '../../scripts/openapi-doc.ts';
import { endGateway } from '../gateway.ts';
import { type Json, listOperations, Schemas } from '../reference/schemas.ts';
import { startGateway } from '../hosted-gateway.ts';

const gateway = await startGateway({ config: 'simulator: { tokens_per_second: 0 }\n', balance: '100' });
afterAll(() => endGateway(gateway));

const document = JSON.parse(openApiText()) as Json;
const operations = listOperations(document);
const schemas = new Schemas(document, { strict: false });

/** The deviations from the reference that were found. */
const faults: string[] = [];
let calls = 0;

/** Sends a request, and compares it and its answer with the reference. */
const recorded: typeof fetch = async (input, init) => {
  const request = new Request(input, init);
  const { pathname } = new URL(request.url);
  const method = request.method.toLowerCase();
  const matches = operations.filter(
    ({ path, method: each }) => each === method && new RegExp(`^${path.replace(/\{\w+\}/g, '[^/]+')}$`).test(pathname),
  );
  // The path with the fewest parameters is the right one.
  const operation = matches.toSorted((one, other) => one.path.split('{').length - other.path.split('{').length)[0];
  const sent = request.headers.get('content-type') === 'application/json' ? await request.clone().json() : undefined;
  const answer = await fetch(request);
  calls += 1;
  const call = `${method} ${pathname}`;
  if (operation === undefined) faults.push(`${call} is not documented`);
  else {
    if (sent !== undefined)
      faults.push(...schemas.findBodyFaults(operation, sent).map(fault => `${call} body${fault}`));
    if (answer.headers.get('content-type')?.startsWith('application/json') === true) {
      const json: unknown = await answer.clone().json();
      faults.push(...schemas.findAnswerFaults(operation, answer.status, json).map(fault => `${call} answer${fault}`));
    }
  }
  return answer;
};

const openai = new OpenAI({ apiKey: gateway.apiKey, baseURL: `${gateway.url}/v1`, fetch: recorded, maxRetries: 0 });
const anthropic = new Anthropic({ apiKey: gateway.apiKey, baseURL: gateway.url, fetch: recorded, maxRetries: 0 });
const user = { role: 'user', content: 'Say hello.\n!sim tokens=8' } as const;

test('a linter finds no error in it', async () => {
  const config = await createConfig({ extends: ['recommended'] });
  const problems = await lint({ ref: openApiDocPath, config });
  expect(
    problems
      .filter(({ severity }) => severity === 'error')
      .map(({ ruleId, message, location }) => `${ruleId} ${message} ${location[0]?.pointer}`),
  ).toEqual([]);
});

test('the requests and answers of OpenAI’s official clients are as documented', async () => {
  const model = 'sim/small';
  await openai.chat.completions.create({ model, messages: [user], temperature: 0, seed: 1, stop: ['END'] });
  const tool = {
    type: 'function',
    function: { name: 'look', parameters: { type: 'object', properties: {} } },
  } as const;
  const requested = { ...user, content: 'Look.\n!sim calls=1' };
  const called = await openai.chat.completions.create({
    model,
    messages: [requested],
    tools: [tool],
    tool_choice: 'required',
  });
  const message = called.choices[0]?.message;
  const id = message?.tool_calls?.[0]?.id ?? '';
  if (message !== undefined)
    await openai.chat.completions.create({
      model,
      messages: [requested, message, { role: 'tool', tool_call_id: id, content: '7' }],
      tools: [tool],
    });
  for await (const _ of await openai.chat.completions.create({ model, messages: [user], stream: true }));
  const response = await openai.responses.create({
    model,
    input: [user],
    instructions: 'Be brief.',
    metadata: { a: 'b' },
  });
  await openai.responses.retrieve(response.id);
  await openai.responses.inputItems.list(response.id);
  await openai.responses.create({ model, input: 'Go on.', previous_response_id: response.id });
  await openai.responses.delete(response.id);
  await openai.embeddings.create({ model: 'sim/embed', input: ['a', 'b'] });
  await openai.images.generate({ model: 'sim/image', prompt: 'A gate', size: '256x256', response_format: 'b64_json' });
  await openai.models.list();
  await expect(openai.chat.completions.create({ model: 'none', messages: [user] })).rejects.toThrow('none');
  expect(faults).toEqual([]);
  expect(calls).toBeGreaterThanOrEqual(13);
});

test('the requests and answers of Anthropic’s official client are as documented', async () => {
  const before = calls;
  const model = 'sim/small';
  await anthropic.messages.create({ model, max_tokens: 32, messages: [user], system: 'Be brief.' });
  const input_schema = { type: 'object' } as const;
  await anthropic.messages.create({
    model,
    max_tokens: 32,
    messages: [user],
    tools: [{ name: 'look', input_schema }],
    tool_choice: { type: 'auto' },
  });
  await anthropic.messages.stream({ model, max_tokens: 32, messages: [user] }).finalMessage();
  await anthropic.messages.countTokens({ model, messages: [user] });
  await expect(anthropic.messages.create({ model: 'none', max_tokens: 1, messages: [user] })).rejects.toThrow('none');
  expect(faults).toEqual([]);
  expect(calls - before).toBe(5);
});
