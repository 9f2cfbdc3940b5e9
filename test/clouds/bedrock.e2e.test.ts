/** Claude on Amazon Bedrock, by a server that verifies signatures and paths. */
import type { ServerResponse } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { post } from '../e2e/chat-client.ts';
import { endGateway, type Gateway, startGateway } from '../gateway.ts';
import { claudeEvents, signature, wholeClaude } from './claude.ts';
import { CloudServer, type Json, sendJson } from './cloud-server.ts';
import { chunkFrame, exceptionFrame } from './event-frames.ts';
import { expectAnswer, interfaces, send } from './interfaces.ts';
import { type Secrets, verifySignature } from './sigv4.ts';

const region = 'eu-west-1';
const secretKey = 'wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY';
const lifeMs = 5_000;
const secrets: Secrets & Map<string, { secret: string; sessionToken?: string; endsAtMs?: number }> = new Map();
secrets.set('AKIASTATIC', { secret: secretKey });
/** What the server does with the next requests, instead of answering. */
const behaviours: ((response: ServerResponse) => void)[] = [];
let container: CloudServer;
let bedrock: CloudServer;
let gateway: Gateway;

const claude = 'eu.anthropic.claude-sonnet-4-5-20250929-v1:0';
const arn = 'arn:aws:bedrock:eu-west-1:123456789012:application-inference-profile/abc123';
const model = (id: string, provider: string, name: string): string =>
  `  - { id: ${id}, max_output_tokens: 8000, endpoints: [/v1/messages, /v1/chat/completions, /v1/responses, '/v1beta/models/{model}:generateContent'], capabilities: { vision: true, function_call: true, reasoning: true }, pricing: { input: 1, output: 10 }, routes: [{ provider: ${provider}, model: '${name}' }] }`;

function sendStream(response: ServerResponse, frames: readonly Buffer[]): void {
  response.writeHead(200, { 'content-type': 'application/vnd.amazon.eventstream', 'x-amzn-requestid': 'aws-1' });
  response.end(Buffer.concat(frames));
}
const frames = claudeEvents.map(chunkFrame);

beforeAll(async () => {
  container = await CloudServer.start((_, response) => {
    const keyId = `ASIA${secrets.size}`;
    const endsAtMs = Date.now() + lifeMs;
    secrets.set(keyId, { secret: `secret-${keyId}`, sessionToken: `session-${keyId}`, endsAtMs });
    sendJson(response, 200, {
      AccessKeyId: keyId,
      SecretAccessKey: `secret-${keyId}`,
      Token: `session-${keyId}`,
      Expiration: new Date(endsAtMs).toISOString(),
    });
  });
  bedrock = await CloudServer.start((request, response) => {
    const isKey = request.headers.authorization === 'Bearer bedrock-key';
    const verified = isKey ? undefined : verifySignature(request, secrets, { region, service: 'bedrock' });
    if (verified !== undefined && 'refused' in verified) {
      const [type = '', ...words] = verified.refused.split(': ');
      sendJson(response, 403, { message: words.join(': ') || type }, { 'x-amzn-errortype': type });
      return;
    }
    const behaviour = behaviours.shift();
    if (behaviour !== undefined) {
      behaviour(response);
      return;
    }
    const [, id = '', method] = /^\/model\/([^/]+)\/([\w-]+)$/.exec(request.url) ?? [];
    if (![claude, arn].includes(decodeURIComponent(id))) {
      sendJson(
        response,
        404,
        { message: 'The model does not exist.' },
        { 'x-amzn-errortype': 'ResourceNotFoundException' },
      );
    } else if (method === 'invoke') sendJson(response, 200, wholeClaude);
    else sendStream(response, frames);
  });
  gateway = await startGateway({
    environment: {
      AWS_CONTAINER_CREDENTIALS_FULL_URI: `${container.origin}/credentials`,
      AWS_EC2_METADATA_DISABLED: 'true',
    },
    config: `
retries: 1
# Other test files may use the processor while the library is loaded.
timeouts: { connect: 60s }
providers:
  bedrock: { region: ${region}, base_url: "${bedrock.origin}", credentials: { access_key_id: AKIASTATIC, secret_access_key: "${secretKey}" } }
  keyed: { cloud: bedrock, region: ${region}, base_url: "${bedrock.origin}", api_key: bedrock-key }
  task: { cloud: bedrock, region: ${region}, base_url: "${bedrock.origin}" }
  wrong: { cloud: bedrock, region: ${region}, base_url: "${bedrock.origin}", credentials: { access_key_id: AKIASTATIC, secret_access_key: wrong } }
  lost: { cloud: bedrock, region: ${region}, base_url: "${bedrock.origin}", credentials: { profile: lost } }
models:
${model('b/claude', 'bedrock', claude)}
${model('b/profile', 'bedrock', arn)}
${model('b/none', 'bedrock', 'anthropic.claude-0')}
${model('k/claude', 'keyed', claude)}
${model('t/claude', 'task', claude)}
${model('w/claude', 'wrong', claude)}
${model('l/claude', 'lost', claude)}
`,
  });
});
beforeEach(() => {
  bedrock.requests.splice(0);
  behaviours.splice(0);
});
afterAll(async () => {
  await endGateway(gateway);
  bedrock.stop();
  container.stop();
});

const cases = interfaces.flatMap(each => [false, true].map(stream => [each.name, stream, each] as const));
const [messages = expect.fail(), chat = expect.fail()] = interfaces;

describe.each(['b/claude', 'b/profile', 'k/claude'])('%s', id => {
  test.each(cases)(
    '%s (stream: %s) is signed, at its path, with the version in the body',
    async (name, stream, each) => {
      expectAnswer(await send(gateway, each, id, { stream }));
      const { url, body, headers } = bedrock.requests[0] ?? expect.fail();
      const segment = id === 'b/profile' ? arn.replace('/', '%2F') : claude;
      const paths = [`/model/${segment}/invoke`, `/model/${segment}/invoke-with-response-stream`];
      // A whole answer may be requested as a stream.
      expect(paths.slice(stream ? 1 : 0)).toContain(url);
      expect(body).toMatchObject({ anthropic_version: 'bedrock-2023-05-31', max_tokens: 2_000 });
      expect(Object.keys(body)).not.toEqual(expect.arrayContaining(['model']));
      expect(body).not.toHaveProperty('stream');
      expect(headers).not.toHaveProperty('anthropic-version');
      if (name === 'messages') {
        expect(body).toMatchObject({
          system: [{ cache_control: { type: 'ephemeral' } }],
          thinking: { budget_tokens: 1_024 },
        });
      }
    },
  );
});

test('betas of a Claude client travel in the body', async () => {
  const headers = { 'anthropic-version': '2023-06-01', 'anthropic-beta': 'a-2025-01-01, b-2025-01-01' };
  const answer = await post(gateway, '/v1/messages', { model: 'b/claude', ...messages.body }, { headers });
  expect(answer.status).toBe(200);
  expect(bedrock.requests[0]?.body['anthropic_beta']).toEqual(['a-2025-01-01', 'b-2025-01-01']);
  expect(bedrock.requests[0]?.headers).not.toHaveProperty('anthropic-beta');
});

test('thinking keeps its signature, and goes back with it; cached tokens are counted', async () => {
  const { text } = await send(gateway, messages, 'b/claude');
  const { content, usage } = JSON.parse(text) as { content: Json[]; usage: Json };
  expect(content[0]).toMatchObject({ type: 'thinking', signature });
  expect(usage).toMatchObject({
    input_tokens: 7,
    cache_read_input_tokens: 100,
    cache_creation_input_tokens: 20,
    output_tokens: 30,
  });
  const result = { type: 'tool_result', tool_use_id: 'toolu_bdrk_1', content: '20 °C' };
  const before = messages.body['messages'] as Json[];
  const more = { messages: [...before, { role: 'assistant', content }, { role: 'user', content: [result] }] };
  expectAnswer(await send(gateway, messages, 'b/claude', { more }));
  const sent = bedrock.requests.at(-1)?.body['messages'] as { content: Json[] }[];
  expect(sent[1]?.content[0]).toMatchObject({ signature });
});

test('a body of megabytes is signed too', async () => {
  const text = 'the café is open. '.repeat(80_000);
  const more = { messages: [{ role: 'user', content: text }] };
  expectAnswer(await send(gateway, messages, 'b/claude', { more }));
});

describe('failures', () => {
  const before = [
    'throttlingException',
    'serviceUnavailableException',
    'internalServerException',
    'modelTimeoutException',
    'modelStreamErrorException',
  ];

  test.each(before)('%s before content takes the next try', async type => {
    behaviours.push(response => sendStream(response, [exceptionFrame(type, 'later')]));
    expectAnswer(await send(gateway, chat, 'b/claude', { stream: true }));
    expect(bedrock.requests).toHaveLength(2);
  });

  test('validationException is the request’s fault', async () => {
    behaviours.push(response => sendStream(response, [exceptionFrame('validationException', 'max_tokens: too many')]));
    const answer = await send(gateway, chat, 'b/claude', { stream: true });
    expect([answer.status, answer.text]).toEqual([400, expect.stringContaining('max_tokens: too many')]);
    expect(bedrock.requests).toHaveLength(1);
  });

  test.each(cases.filter(([, stream]) => stream))(
    'an exception after content ends the stream of %s with its error event',
    async (_, __, each) => {
      behaviours.push(response =>
        sendStream(response, [...frames.slice(0, 7), exceptionFrame('modelStreamErrorException', 'it broke')]),
      );
      const { status, text } = await send(gateway, each, 'b/claude', { stream: true });
      expect([status, text]).toEqual([200, expect.stringMatching(/Let me look\.[^]*error/)]);
      expect(text).not.toMatch(/\[DONE\][^]*\[DONE\]|message_stop|response\.completed/);
    },
  );

  const stream = Buffer.concat(frames);
  const broken = Buffer.from(Buffer.concat(frames.slice(0, 8)));
  broken.writeUInt8(broken.readUInt8(broken.length - 20) ^ 1, broken.length - 20);
  test.each([
    ['cut inside a frame', stream.subarray(0, stream.length - 200)],
    ['with a wrong checksum', broken],
  ])('a stream that is %s is never an answer', async (_, bytes) => {
    behaviours.push(response => {
      response.writeHead(200, { 'content-type': 'application/vnd.amazon.eventstream' }).end(bytes);
    });
    const { text } = await send(gateway, messages, 'b/claude', { stream: true });
    expect(text).toMatch(/Let me look\.[^]*event: error/);
    expect(text).not.toContain('message_stop');
  });

  test('throttling by status is tried again; a lasting one is 429 with the wait', async () => {
    const throttle = (response: ServerResponse): void =>
      sendJson(
        response,
        429,
        { message: 'Too many requests' },
        { 'x-amzn-errortype': 'ThrottlingException', 'retry-after': '1' },
      );
    behaviours.push(throttle);
    expectAnswer(await send(gateway, chat, 'b/claude'));
  });

  test('a model that is not there is not told with the cloud’s address', async () => {
    const answer = await send(gateway, chat, 'b/none');
    expect(answer.status).toBeGreaterThanOrEqual(400);
    expect(answer.text).not.toMatch(/AKIA|\/model\//);
  });
});

describe('credentials', () => {
  test('of the default chain that end while requests run are renewed before: no request fails', async () => {
    const keysBefore = secrets.size;
    const lanes = Array.from({ length: 3 }, async () => {
      while (secrets.size - keysBefore < 3) {
        expectAnswer(await send(gateway, chat, 't/claude', { stream: true }));
        await sleep(50);
      }
    });
    await Promise.all(lanes);
    expect(secrets.size - keysBefore).toBeLessThanOrEqual(4);
  }, 90_000);

  test('that are wrong are 502 for clients, and told to the operator in words', async () => {
    const { json } = await gateway.cli(['provider', 'test', 'wrong', '--json']);
    expect(JSON.stringify(json)).toMatch(/status 403: another signature/);
    for (const each of [chat, messages]) {
      const answer = await send(gateway, each, 'w/claude');
      expect([answer.status, answer.text]).toEqual([502, expect.not.stringMatching(/AKIA|another signature/i)]);
    }
    expect(gateway.printed()).not.toContain(secretKey);
  });

  test('that are not there are 502 for clients, and told to the operator in words', async () => {
    const { json } = await gateway.cli(['provider', 'test', 'lost', '--json']);
    expect(JSON.stringify(json)).toMatch(/no credential: [^"]*(lost|profile)/i);
    const answer = await send(gateway, chat, 'l/claude');
    expect([answer.status, answer.text]).toEqual([502, expect.not.stringMatching(/profile/)]);
  });
});
