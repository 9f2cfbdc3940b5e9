/**
 * What errors of providers mean (docs/errors.md "Errors of providers"): each is an answer that a provider gives, at the first of two routes. If the request is at fault, the client gets 400 and the second route is not tried;
 * otherwise the second route answers, and without one the client gets 502, without what concerns only the operator.
 */
import { afterAll, beforeEach, describe, expect, test } from 'vitest';
import { endGateway } from '../gateway.ts';
import { startGateway } from '../hosted-gateway.ts';
import { chunk, lastChunk, RawUpstream, streamHead, whole } from '../upstreams/raw-upstream.ts';
import { ask, complete } from './chat-client.ts';

const protocols = { chat: '/v1', responses: '/v1', messages: '', gemini: '' } as const;
type ProtocolName = keyof typeof protocols;

/** What a client gets. `request`, `too long`: 400, and no other route is tried; `operator`: the next route answers, and clients don't see the message; `shown`: the next route answers, and the message is shown if there is none. */
type Outcome = 'request' | 'too long' | 'operator' | 'shown' | 'hidden';

interface Case {
  readonly protocol: ProtocolName;
  /** 'stream': the error comes as the first event of a stream. */
  readonly status: number | 'stream';
  readonly body: unknown;
  readonly outcome: Outcome;
  /** The message that the client gets; absent: the one of the body. */
  readonly message?: string;
}

const chat = (status: number | 'stream', error: unknown, outcome: Outcome, message?: string): Case => ({
  protocol: 'chat',
  status,
  body: { error },
  outcome,
  ...(message === undefined ? {} : { message }),
});
const inner = JSON.stringify({ error: { message: 'Your picture is of a cat.', type: 'invalid_request_error' } });
const google = (status: number, message: string, more: object, outcome: Outcome): Case => ({
  protocol: 'gemini',
  status,
  body: { error: { code: status, message, ...more } },
  outcome,
});
const anthropic = (
  status: number,
  error: { type: string; message: string; details?: object },
  outcome: Outcome,
): Case => ({
  protocol: 'messages',
  status,
  body: { type: 'error', error },
  outcome,
});

const cases: Readonly<Record<string, Case>> = {
  'OpenRouter, no endpoint with tools': chat(
    404,
    { code: 404, message: 'No endpoints found that support tool use. To learn more, visit the docs.' },
    'request',
  ),
  'OpenRouter, no endpoint with parameters': chat(
    404,
    { code: 404, message: 'No endpoints found that can handle the requested parameters.' },
    'request',
  ),
  'OpenRouter, no such model': chat(404, { code: 404, message: 'No endpoints found for acme/gone.' }, 'operator'),
  'OpenRouter, data policy of the operator': chat(
    404,
    { code: 404, message: 'No endpoints found matching your data policy (Free model publication).' },
    'operator',
  ),
  'OpenRouter, flagged input': chat(
    403,
    { code: 403, message: 'Your input was flagged by moderation.', metadata: { reasons: ['violence'] } },
    'request',
  ),
  'OpenRouter, the error of the provider behind it': chat(
    400,
    { code: 400, message: 'Provider returned error', metadata: { provider_name: 'X', raw: inner } },
    'request',
    'Your picture is of a cat.',
  ),
  'OpenRouter, a bill as 402': chat(402, { code: 402, message: 'This request requires more credits.' }, 'operator'),
  'OpenAI, tools with an old model': chat(
    404,
    { message: 'tools is not supported in this model.', type: 'invalid_request_error', code: null },
    'request',
  ),
  'OpenAI, an item that was not stored': {
    protocol: 'responses',
    status: 404,
    body: { error: { message: "Item with id 'rs_1' not found. Items are not persisted when `store` is false." } },
    outcome: 'request',
  },
  'OpenAI, no such model as 400': {
    protocol: 'responses',
    status: 400,
    body: { error: { message: "The requested model 'gone' does not exist.", param: 'model', code: 'model_not_found' } },
    outcome: 'operator',
  },
  'OpenAI, a key without the model': chat(
    403,
    { message: 'You are not allowed to sample from this model' },
    'operator',
  ),
  'OpenAI, no credit as 429': chat(
    429,
    { message: 'No credit is left.', type: 'insufficient_quota', code: 'credit_balance_exhausted' },
    'operator',
  ),
  'OpenAI, larger than the tokens a minute': chat(
    429,
    {
      message: 'Request too large for m in organization org-secret on tokens per min (TPM).',
      code: 'rate_limit_exceeded',
    },
    'operator',
  ),
  'OpenAI, too long': chat(400, { message: 'Too much.', code: 'context_length_exceeded' }, 'too long'),
  'Groq, larger than the tokens a minute': chat(
    413,
    {
      message: 'Request too large for model `m` in organization `org_secret` on tokens per minute (TPM).',
      type: 'tokens',
    },
    'operator',
  ),
  'Groq, a retired model': chat(
    400,
    { message: 'The model `m` has been decommissioned.', type: 'invalid_request_error', code: 'model_decommissioned' },
    'operator',
  ),
  'Groq, no capacity for flex': chat(498, { message: 'Flex is full.', code: 'capacity_exceeded' }, 'shown'),
  'xAI, a wrong key as 400': {
    protocol: 'chat',
    status: 400,
    body: { code: 'invalid-argument', error: 'Incorrect API key provided. You can obtain one from the console.' },
    outcome: 'operator',
  },
  'xAI, refused content': {
    protocol: 'chat',
    status: 403,
    body: {
      code: 'The caller does not have permission to execute the specified operation',
      error:
        'Content violates usage guidelines. Team: team-secret, API key ID: id-secret, Model: m, Failed check: SAFETY_CHECK_TYPE_BIO',
    },
    outcome: 'request',
    message: 'Content violates usage guidelines. Model: m, Failed check: SAFETY_CHECK_TYPE_BIO',
  },
  'DeepSeek, no balance': chat(402, { message: 'Insufficient Balance', type: 'unknown_error' }, 'operator'),
  'Together, too long as 403': chat(403, { message: 'Input and max_tokens exceed the context length.' }, 'too long'),
  'Azure, a content filter': chat(
    400,
    { message: 'The response was filtered.', code: 'content_filter', status: 400 },
    'request',
  ),
  'Perplexity, too long': chat(
    400,
    { message: 'The total length of all messages is too long.', type: 'too_many_prompt_tokens', code: 400 },
    'too long',
  ),
  'Ollama, too long': chat(400, { message: 'prompt too long; exceeded max context length by 7 tokens' }, 'too long'),
  'llama.cpp, an image as 500': chat(500, { message: 'image input is not supported by this model' }, 'request'),
  'Anthropic, no credit as 400': anthropic(
    400,
    { type: 'invalid_request_error', message: 'Your credit balance is too low to access the API.' },
    'operator',
  ),
  'Anthropic, a spend limit as 400': anthropic(
    400,
    { type: 'invalid_request_error', message: 'You have reached your specified API usage limits.' },
    'operator',
  ),
  'Anthropic, a spend limit as 429': anthropic(
    429,
    { type: 'rate_limit_error', message: 'Paused.', details: { error_code: 'enforced_spend_limit_reached' } },
    'operator',
  ),
  'Anthropic, no such model': anthropic(404, { type: 'not_found_error', message: 'model: claude-gone' }, 'operator'),
  'Anthropic, too long': anthropic(
    400,
    { type: 'invalid_request_error', message: 'prompt is too long: 3333404 tokens > 200000 maximum' },
    'too long',
  ),
  'Anthropic, overloaded': anthropic(529, { type: 'overloaded_error', message: 'Overloaded' }, 'shown'),
  'Gemini, a wrong key as 400': google(
    400,
    'API key not valid. Please pass a valid API key.',
    { status: 'INVALID_ARGUMENT', details: [{ reason: 'API_KEY_INVALID' }] },
    'operator',
  ),
  'Gemini, no free tier here': google(
    400,
    'Gemini API free tier is not available in your country. Please enable billing.',
    { status: 'FAILED_PRECONDITION' },
    'operator',
  ),
  'Gemini, a quota': google(
    429,
    'You exceeded your current quota, please check your plan and billing details.',
    { status: 'RESOURCE_EXHAUSTED' },
    'hidden',
  ),
  'Chat, a refusal in a stream': chat(
    'stream',
    { message: 'No.', type: 'invalid_request_error', code: null },
    'request',
  ),
  'Chat, an overload in a stream': chat('stream', { message: 'Busy.', type: 'overloaded_error', code: null }, 'shown'),
  'Responses, a refusal in a stream': {
    protocol: 'responses',
    status: 'stream',
    body: { type: 'error', error: { message: 'No.', type: 'invalid_request_error', code: 'invalid_prompt' } },
    outcome: 'request',
  },
  'Anthropic, a refusal in a stream': {
    protocol: 'messages',
    status: 'stream',
    body: { type: 'error', error: { message: 'No.', type: 'invalid_request_error' } },
    outcome: 'request',
  },
  'Gemini, a refusal in a stream': {
    protocol: 'gemini',
    status: 'stream',
    body: { error: { code: 400, message: 'No.', status: 'INVALID_ARGUMENT' } },
    outcome: 'request',
  },
  'Gemini, an unknown parameter': google(400, 'JSON mode is not enabled.', { status: 'INVALID_ARGUMENT' }, 'request'),
};
const names = Object.keys(cases);

const answer = JSON.stringify({
  id: 'c',
  object: 'chat.completion',
  created: 1,
  model: 'm',
  choices: [{ index: 0, finish_reason: 'stop', message: { role: 'assistant', content: 'Hi' } }],
  usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
});
/** How many requests the second route has got. */
let answered = 0;
const upstream = await RawUpstream.start((socket, { line, body }) => {
  const index = /case-(\d+)/.exec(line + body)?.[1];
  const found = index === undefined ? undefined : cases[names[Number(index)] ?? ''];
  if (found === undefined) {
    answered += 1;
    return void socket.write(whole(200, answer));
  }
  const sent = JSON.stringify(found.body);
  if (found.status !== 'stream') return void socket.write(whole(found.status, sent));
  const type = (found.body as { type?: string }).type ?? 'message';
  for (const part of [streamHead, chunk(`event: ${type}\ndata: ${sent}\n\n`), lastChunk]) socket.write(part);
});
const origin = new URL(upstream.baseUrl).origin;
const provider = ({ protocol }: Case, name: string): string =>
  `\n  ${name}: { protocol: ${protocol}, base_url: "${origin}${protocols[protocol]}", api_key: key }`;
const model = (id: string, routes: string): string =>
  `\n  - { id: ${id}, pricing: { input: 1, output: 1 }, routes: [${routes}] }`;
const gateway = await startGateway({
  config: `
retries: 0
simulator: { enabled: false }
providers:
  good: { protocol: chat, base_url: "${upstream.baseUrl}", api_key: key }${Object.values(cases)
    .map((each, index) => provider(each, `two${index}`) + provider(each, `one${index}`))
    .join('')}
models:${names
    .map(
      (_, index) =>
        model(
          `acme/two${index}`,
          `{ provider: two${index}, model: case-${index}, priority: 1 }, { provider: good, model: m, priority: 2 }`,
        ) + model(`acme/one${index}`, `{ provider: one${index}, model: case-${index} }`),
    )
    .join('')}
`,
});
afterAll(async () => {
  await endGateway(gateway);
  await upstream.stop();
});
beforeEach(() => {
  answered = 0;
});

/** Returns the text of an error's message, as the provider sent it. */
function sentMessage({ body }: Case): string {
  const { error } = body as { error: { message: string } | string };
  return typeof error === 'string' ? error : error.message;
}

describe.each(names)('%s', name => {
  const found = cases[name] ?? expect.fail(name);
  const index = names.indexOf(name);
  const send = (id: string) => complete(gateway, ask('Hello', { model: `acme/${id}${index}` }));
  const isRequests = found.outcome === 'request' || found.outcome === 'too long';

  test('at the first of two routes', async () => {
    const { status, body } = await send('two');
    if (!isRequests) return expect([status, answered]).toEqual([200, 1]);
    const code = found.outcome === 'request' ? 'upstream_rejected' : 'context_length_exceeded';
    expect([status, body.error.code, body.error.message, answered]).toEqual([
      400,
      code,
      found.message ?? sentMessage(found),
      0,
    ]);
  });

  test('at the only route', async () => {
    const { status, body } = await send('one');
    if (isRequests) return expect(status).toBe(400);
    expect([status, body.error.code]).toEqual([502, 'upstream_error']);
    if (found.outcome === 'operator')
      expect(body.error.message).toBe('The model’s provider refused the gateway’s request.');
    else if (found.outcome === 'hidden') expect(body.error.message).toBe('The model’s provider is overloaded.');
    else expect(body.error.message).toContain(sentMessage(found));
  });
});
