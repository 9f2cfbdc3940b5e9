/**
 * The official clients of the clouds beside the gateway: each asks the same of one server, once by itself and once through the gateway, and both requests must have the same path, credential and body.
 * The server verifies signatures as AWS does.
 */
import Anthropic from '@anthropic-ai/sdk';
import { AnthropicBedrock, AnthropicBedrockMantle } from '@anthropic-ai/bedrock-sdk';
import { AnthropicVertex } from '@anthropic-ai/vertex-sdk';
import { GoogleGenAI } from '@google/genai';
import OpenAI, { AzureOpenAI } from 'openai';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { claudeEvents, claudeStream, wholeClaude } from '../clouds/claude.ts';
import { CloudServer, type CloudRequest, type Json, sendJson } from '../clouds/cloud-server.ts';
import { chunkFrame } from '../clouds/event-frames.ts';
import { type Secrets, verifySignature } from '../clouds/sigv4.ts';
import { chatWire, geminiWire, responsesWire } from '../e2e/upstream-wires.ts';
import { endGateway, type Gateway, startGateway } from '../gateway.ts';

const region = 'eu-west-1';
const secret = 'wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY';
const secrets: Secrets = new Map([['AKIA1', { secret }]]);
const claude = 'eu.anthropic.claude-sonnet-4-5-20250929-v1:0';
const frames = claudeEvents.map(chunkFrame);
let server: CloudServer;
let metadata: CloudServer;
let gateway: Gateway;

/** Answers in the protocol of the path. */
function answer(
  { url, body }: CloudRequest,
  send: { json(body: unknown): void; bytes(type: string, body: string | Buffer): void },
): void {
  const sse = (text: string): void => send.bytes('text/event-stream', text);
  const isStream = body['stream'] === true;
  const usage = { input_tokens: 1, output_tokens: 1 };
  if (url.endsWith('/invoke-with-response-stream'))
    send.bytes('application/vnd.amazon.eventstream', Buffer.concat(frames));
  else if (url.includes('streamGenerateContent')) sse(geminiWire.begun + geminiWire.texts.join('') + geminiWire.finish);
  else if (url.includes('generateContent'))
    send.json(JSON.parse(geminiWire.whole({ promptTokenCount: 1, candidatesTokenCount: 1 })));
  else if (/\/(invoke|messages)$|awPredict$/.test(url)) {
    if (isStream) sse(claudeStream);
    else send.json(wholeClaude);
  } else if (url.includes('/responses')) {
    if (isStream)
      sse(
        [
          responsesWire.begun,
          ...responsesWire.texts,
          ...responsesWire.call.map(({ frame }) => frame),
          responsesWire.finish,
          responsesWire.usage(usage),
          responsesWire.end,
        ].join(''),
      );
    else send.json(JSON.parse(responsesWire.whole(usage)));
  } else if (isStream)
    sse(
      [
        chatWire.begun,
        ...chatWire.texts,
        ...chatWire.call.map(({ frame }) => frame),
        chatWire.finish,
        chatWire.end,
      ].join(''),
    );
  else send.json(JSON.parse(chatWire.whole({ prompt_tokens: 1, completion_tokens: 1 })));
}

const model = (id: string, provider: string, name: string): string =>
  `  - { id: ${id}, max_output_tokens: 8000, endpoints: [/v1/messages, /v1/chat/completions, /v1/responses, '/v1beta/models/{model}:generateContent'], capabilities: { vision: true, function_call: true, reasoning: true }, pricing: { input: 1, output: 10 }, routes: [{ provider: ${provider}, model: '${name}' }] }`;

beforeAll(async () => {
  metadata = await CloudServer.start(({ url }, response) => {
    response.setHeader('metadata-flavor', 'Google');
    if (url.includes('/token'))
      sendJson(response, 200, { access_token: 'ya29.t', expires_in: 3600, token_type: 'Bearer' });
    else if (url.endsWith('/universe-domain')) response.writeHead(200).end('googleapis.com');
    else response.writeHead(200).end('p');
  });
  server = await CloudServer.start((request, response) => {
    if (request.headers.authorization?.startsWith('AWS4') === true) {
      const service = request.url.startsWith('/anthropic') ? 'bedrock-mantle' : 'bedrock';
      const verified = verifySignature(request, secrets, { region, service });
      if ('refused' in verified) {
        sendJson(response, 403, { message: verified.refused });
        return;
      }
    }
    answer(request, {
      json: body => sendJson(response, 200, body),
      bytes: (type, body) => void response.writeHead(200, { 'content-type': type }).end(body),
    });
  });
  const keys = `credentials: { access_key_id: AKIA1, secret_access_key: "${secret}" }`;
  gateway = await startGateway({
    environment: { GCE_METADATA_HOST: metadata.host },
    config: `
timeouts: { connect: 60s }
providers:
  bedrock: { region: ${region}, base_url: "${server.origin}", ${keys} }
  mantle: { cloud: bedrock, endpoint: mantle, region: ${region}, base_url: "${server.origin}", ${keys} }
  vertex: { project: p, location: us-east5, base_url: "${server.origin}" }
  azure: { cloud: azure, base_url: "${server.origin}", api_version: 2025-04-01-preview, api_key: azure-key }
models:
${model('bedrock', 'bedrock', claude)}
${model('mantle', 'mantle', 'anthropic.claude-sonnet-4-5')}
${model('vertex', 'vertex', 'claude-sonnet-4-5@20250929')}
${model('gemini', 'vertex', 'gemini-2.5-flash')}
${model('azure', 'azure', 'my gpt')}
`,
  });
});
beforeEach(() => void server.requests.splice(0));
afterAll(async () => {
  await endGateway(gateway);
  server.stop();
  metadata.stop();
});

/** Sends the same by the client itself and through the gateway, and returns both requests. */
async function both(
  own: () => Promise<unknown>,
  through: () => Promise<unknown>,
): Promise<readonly [CloudRequest, CloudRequest]> {
  await own();
  await through();
  const [one, other] = server.requests;
  if (one === undefined || other === undefined) throw new Error(`${server.requests.length} requests came`);
  return [one, other];
}

/** The headers that the signature covers and that the gateway must sign too. */
const signedOf = ({ headers }: CloudRequest): string[] =>
  (/SignedHeaders=([^,]+)/.exec(headers.authorization ?? '')?.[1] ?? '')
    .split(';')
    .filter(name => name === 'host' || name === 'content-type' || name.startsWith('x-amz-'));

/** A body without the members that differ on purpose: the version that the newest clients send, and `stream`, which the path repeats. */
function comparable({ body }: CloudRequest): Json {
  const { anthropic_version: _, stream: __, ...rest } = body;
  return rest;
}

const asked = {
  max_tokens: 2_000,
  thinking: { type: 'enabled' as const, budget_tokens: 1_024 },
  system: [{ type: 'text' as const, text: 'Be brief.', cache_control: { type: 'ephemeral' as const } }],
  tools: [{ name: 'get_weather', input_schema: { type: 'object' as const, properties: { city: { type: 'string' } } } }],
  messages: [{ role: 'user' as const, content: 'Where?' }],
};
const anthropic = () => new Anthropic({ apiKey: gateway.apiKey, baseURL: gateway.url, maxRetries: 0 });

/** Reads a stream to its end. */
async function drain(stream: AsyncIterable<unknown> | Promise<AsyncIterable<unknown>>): Promise<void> {
  for await (const _ of await stream);
}

describe('Claude', () => {
  const credentials = { awsRegion: region, awsAccessKey: 'AKIA1', maxRetries: 0 };
  const clients: readonly (readonly [id: string, name: string, client: () => Pick<Anthropic, 'messages'>])[] = [
    [
      'bedrock',
      claude,
      () => new AnthropicBedrock({ ...credentials, awsSecretKey: secret, baseURL: server.origin }) as never,
    ],
    [
      'mantle',
      'anthropic.claude-sonnet-4-5',
      () =>
        new AnthropicBedrockMantle({
          ...credentials,
          awsSecretAccessKey: secret,
          baseURL: `${server.origin}/anthropic`,
        }),
    ],
    [
      'vertex',
      'claude-sonnet-4-5@20250929',
      () => {
        const authClient = {
          getRequestHeaders: () => Promise.resolve(new Headers({ authorization: 'Bearer ya29.t' })),
        };
        return new AnthropicVertex({
          projectId: 'p',
          region: 'us-east5',
          baseURL: `${server.origin}/v1`,
          authClient: authClient as never,
        }) as never;
      },
    ],
  ];

  test.each(clients)('%s: a stream has the same path, signed headers and body', async (id, name, make) => {
    const [own, through] = await both(
      () => drain(make().messages.create({ ...asked, model: name, stream: true })),
      () => drain(anthropic().messages.create({ ...asked, model: id, stream: true })),
    );
    expect(through.url).toBe(own.url);
    expect(comparable(through)).toEqual(comparable(own));
    expect(through.body['stream']).toBe(own.body['stream']);
    expect(signedOf(through)).toEqual(signedOf(own));
    if (id !== 'vertex') expect(signedOf(own)).toEqual(expect.arrayContaining(['host', 'content-type', 'x-amz-date']));
    if (id === 'vertex') expect(through.headers.authorization).toBe(own.headers.authorization);
    else expect(through.headers.authorization).toMatch(/^AWS4-HMAC-SHA256 Credential=AKIA1\/\d{8}\/eu-west-1\/bedrock/);
  });

  test.each(clients)('%s: a whole answer comes with the same body', async (id, name, make) => {
    const [own, through] = await both(
      () => make().messages.create({ ...asked, model: name }),
      () => anthropic().messages.create({ ...asked, model: id }),
    );
    expect(comparable(through)).toEqual(comparable(own));
    expect([own.url, own.url.replace('rawPredict', 'streamRawPredict'), `${own.url}-with-response-stream`]).toContain(
      through.url,
    );
  });

  test('the client reads the same answer from Bedrock and from the gateway', async () => {
    const bedrock = new AnthropicBedrock({ ...credentials, awsSecretKey: secret, baseURL: server.origin });
    const own = await bedrock.messages.stream({ ...asked, model: claude }).finalMessage();
    const through = await anthropic()
      .messages.stream({ ...asked, model: 'bedrock' })
      .finalMessage();
    expect(through.content).toEqual(own.content);
    expect(through.stop_reason).toBe(own.stop_reason);
  });
});

test('Gemini on Vertex: the same path, token and body', async () => {
  const body = {
    contents: 'Where?',
    config: { systemInstruction: 'Be brief.', maxOutputTokens: 50, temperature: 0.5 },
  };
  const googleAuthOptions = {
    authClient: { getRequestHeaders: () => Promise.resolve(new Headers({ authorization: 'Bearer ya29.t' })) },
  };
  const vertex = new GoogleGenAI({
    vertexai: true,
    project: 'p',
    location: 'us-east5',
    httpOptions: { baseUrl: server.origin },
    googleAuthOptions: googleAuthOptions as never,
  });
  const client = new GoogleGenAI({ apiKey: gateway.apiKey, httpOptions: { baseUrl: gateway.url } });
  const [own, through] = await both(
    () => drain(vertex.models.generateContentStream({ ...body, model: 'gemini-2.5-flash' })),
    () => drain(client.models.generateContentStream({ ...body, model: 'gemini' })),
  );
  expect(through.url).toBe(own.url);
  expect(through.headers.authorization).toBe('Bearer ya29.t');
  expect(through.body).toEqual(own.body);
});

describe('Azure', () => {
  const openai = () => new OpenAI({ apiKey: gateway.apiKey, baseURL: `${gateway.url}/v1`, maxRetries: 0 });
  const azure = () =>
    new AzureOpenAI({ apiKey: 'azure-key', apiVersion: '2025-04-01-preview', endpoint: server.origin, maxRetries: 0 });
  const without = ({ body }: CloudRequest): Json => {
    const {
      stream_options: _,
      store: __,
      max_completion_tokens: ___,
      max_output_tokens: ____,
      prompt_cache_key: _____,
      ...rest
    } = body;
    return rest;
  };

  test('Chat: the same path with the version, key and body', async () => {
    const messages = [{ role: 'user' as const, content: 'hi' }];
    const [own, through] = await both(
      () => drain(azure().chat.completions.create({ model: 'my gpt', messages, stream: true })),
      () => drain(openai().chat.completions.create({ model: 'azure', messages, stream: true })),
    );
    expect(through.url).toBe(own.url);
    expect(through.headers['api-key']).toBe('azure-key');
    expect(through.headers).not.toHaveProperty('authorization');
    expect(without(through)).toEqual(without(own));
  });

  test('Responses: the same path with the version, key and body', async () => {
    const [own, through] = await both(
      () => drain(azure().responses.create({ model: 'my gpt', input: 'hi', stream: true })),
      () => drain(openai().responses.create({ model: 'azure', input: 'hi', stream: true })),
    );
    expect(through.url).toBe(own.url);
    expect(through.headers['api-key']).toBe('azure-key');
    expect(without(through)).toEqual(without(own));
  });
});
