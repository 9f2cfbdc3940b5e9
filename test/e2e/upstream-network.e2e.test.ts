/** The network between the gateway and a provider: certificates, proxies, and the errors that clients and the operator get if it is blocked. With a real process, a real TLS server and a real proxy. */
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer as createHttpServer, type IncomingMessage, type Server } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { endGateway, type Gateway, startGateway } from '../gateway.ts';
import { complete, stream } from './chat-client.ts';

const pemPath = fileURLToPath(new URL('../upstreams/fixtures/self-signed.pem', import.meta.url));
const pem = readFileSync(pemPath);
const key = 'canary-key-of-the-provider-0123456789';
const password = 'canary-password-of-the-proxy';
const answer = JSON.stringify({
  id: 'c',
  object: 'chat.completion',
  created: 1,
  model: 'm',
  choices: [{ index: 0, message: { role: 'assistant', content: 'safe' }, finish_reason: 'stop' }],
  usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
});

/** The requests that the provider received, over TLS with a certificate that no authority has signed, and without TLS. */
const seen: string[] = [];
const serve = (request: IncomingMessage, response: { end(text: string): void }): void => {
  seen.push(request.headers['authorization'] ?? '');
  request.resume();
  response.end(answer);
};
const secure = createTlsServer({ key: pem, cert: pem }, serve);
const plain = createHttpServer(serve);

/** The requests that the proxy received. Like a deployed proxy it tunnels, forwards plain requests and requires a password. It can be set to send every host to the provider. */
const proxied: { line: string; authorization: string | undefined; credential: string | undefined }[] = [];
const tunnels = new Set<Socket>();
let isOpen = true;
const proxy = createHttpServer((request, response) => {
  note(request);
  request.resume();
  response.end(answer);
});
proxy.on('connect', (request: IncomingMessage, socket: Socket) => {
  note(request);
  tunnels.add(socket);
  socket.on('error', () => socket.destroy());
  if (!isOpen) {
    socket.end('HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n');
    return;
  }
  const there = connect(readPort(secure), '127.0.0.1', () => {
    socket.write('HTTP/1.1 200 Connection established\r\n\r\n');
    there.pipe(socket).pipe(there);
  });
  tunnels.add(there);
  there.on('error', () => socket.destroy());
  socket.on('close', () => there.destroy());
});

function note({ method, url, headers }: IncomingMessage): void {
  const { authorization, 'proxy-authorization': credential } = headers;
  proxied.push({ line: `${method} ${url}`, authorization, credential });
}

const readPort = (server: Server): number => (server.address() as AddressInfo).port;

const provider = (name: string, address: string): string =>
  `  ${name}: { protocol: chat, base_url: "${address}", api_key: "${key}" }\n`;
const model = (name: string): string =>
  `  - { id: acme/${name}, endpoints: [/v1/chat/completions], pricing: { input: 1, output: 1 }, routes: [{ provider: ${name}, model: m }] }\n`;

/** A gateway that does not trust the certificate. Node.js's checks are switched off by the environment, which must make no difference. */
let distrustful: Gateway;
/** A gateway that is configured to trust the certificate. */
let trustful: Gateway;
beforeAll(async () => {
  for (const server of [secure, plain, proxy]) {
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
  }
  const withPassword = proxyUrl(`user:${password}@`);
  [distrustful, trustful] = await Promise.all([
    start({
      NODE_TLS_REJECT_UNAUTHORIZED: '0',
      HTTPS_PROXY: withPassword,
      NO_PROXY: '127.0.0.1',
      OPENAI_API_KEY: key,
      ANTHROPIC_API_KEY: key,
      GEMINI_API_KEY: key,
      MISTRAL_API_KEY: key,
    }),
    start({
      NODE_EXTRA_CA_CERTS: pemPath,
      HTTPS_PROXY: withPassword,
      HTTP_PROXY: proxyUrl().replace('http://', ''),
      NO_PROXY: `localhost,127.0.0.1:${readPort(plain)}`,
    }),
  ]);
});
beforeEach(() => {
  seen.length = 0;
  proxied.length = 0;
  isOpen = true;
});
afterAll(async () => {
  await Promise.all([endGateway(distrustful), endGateway(trustful)]);
  for (const socket of tunnels) socket.destroy();
  for (const server of [secure, plain, proxy]) server.close();
});

function start(environment: Record<string, string>): Promise<Gateway> {
  return startGateway({
    config: `
retries: 0
simulator: { enabled: false }
providers:
${provider('secure', `https://127.0.0.1:${readPort(secure)}/v1`)}${provider('near', `https://localhost:${readPort(secure)}/v1`)}${provider('named', 'https://models.example/v1')}${provider('plain', `http://127.0.0.1:${readPort(plain)}/v1`)}${provider('far', 'http://models.example/v1')}
models:
${['secure', 'near', 'named', 'plain', 'far'].map(model).join('')}`,
    environment,
  });
}

async function ask(gateway: Gateway, name: string): Promise<[number, string]> {
  const body = { model: name.includes('/') ? name : `acme/${name}`, messages: [{ role: 'user', content: 'hi' }] };
  const answered = await complete(gateway, body);
  const { status, text } = answered;
  return [status, status === 200 ? text : `${answered.body.error.code}: ${answered.body.error.message}`];
}

/** Waits until the last failure that the operator sees of a provider contains `reason`, and returns it. */
async function failure(of: string, reason: RegExp): Promise<Record<string, unknown>> {
  const read = (): Record<string, unknown> | undefined =>
    distrustful
      .printed()
      .split('\n')
      .filter(line => line.includes('"msg":"a provider failed"') && line.includes(`"provider":"${of}"`))
      .map(line => JSON.parse(line) as Record<string, unknown>)
      .at(-1);
  await expect.poll(() => read()?.['reason'], { timeout: 10_000 }).toMatch(reason);
  return read() ?? {};
}

const unreachable = 'upstream_error: The model’s provider could not be reached.';
const proxyUrl = (credential = ''): string => `http://${credential}127.0.0.1:${readPort(proxy)}`;

describe('a certificate', () => {
  test('that no authority has signed is refused, nothing is sent, and the log names the provider and the reason', async () => {
    expect(await ask(distrustful, 'secure')).toEqual([502, unreachable]);
    const streamed = await stream(distrustful, { model: 'acme/secure', messages: [{ role: 'user', content: 'hi' }] });
    expect([streamed.status, seen, proxied]).toEqual([502, [], []]);
    const line = await failure('secure', /self-signed certificate/);
    expect(line).toMatchObject({ level: 'warn', model: 'acme/secure', result: 'connect', attempt: 1 });
    expect(streamed.headers.get('x-request-id')).toMatch(/^req_\w{21}$/);
    await expect
      .poll(async () => (await failure('secure', /self/))['request_id'], { timeout: 10_000 })
      .toBe(streamed.headers.get('x-request-id'));
  });

  test('that the operator trusts is accepted', async () => {
    expect(await ask(trustful, 'near')).toEqual([200, 'safe']);
    expect([seen, proxied]).toEqual([[`Bearer ${key}`], []]);
  });
});

describe('a proxy', () => {
  test('sees the host names of TLS providers but nothing that is sent to them; hosts in NO_PROXY are reached directly', async () => {
    expect(await ask(trustful, 'secure')).toEqual([200, 'safe']);
    expect(proxied.splice(0)).toEqual([
      {
        line: `CONNECT 127.0.0.1:${readPort(secure)}`,
        authorization: undefined,
        credential: `Basic ${Buffer.from(`user:${password}`).toString('base64')}`,
      },
    ]);
    expect(await ask(trustful, 'plain')).toEqual([200, 'safe']);
    expect([proxied, seen]).toEqual([[], [`Bearer ${key}`, `Bearer ${key}`]]);
    expect(await ask(trustful, 'far')).toEqual([200, 'safe']);
    expect(proxied.map(({ line }) => line)).toEqual(['POST http://models.example/v1/chat/completions']);
  });

  test('that answers in place of a provider is not trusted; if it refuses, the failure names the proxy', async () => {
    expect(await ask(distrustful, 'named')).toEqual([502, unreachable]);
    expect([proxied.map(({ line }) => line), seen]).toEqual([['CONNECT models.example:443'], []]);
    await failure('named', /certificate/);
    isOpen = false;
    expect(await ask(distrustful, 'named')).toEqual([502, unreachable]);
    await failure('named', /Proxy response \(403\)/);
  });
});

test('a provider that an environment variable enables is called at its address, over TLS; its models are listed with their prices', async () => {
  isOpen = false;
  const models = ['openai/gpt-5', 'anthropic/claude-sonnet-5', 'google/gemini-2.5-pro', 'mistral/codestral-2508'];
  for (const id of models) expect(await ask(distrustful, id)).toEqual([502, unreachable]);
  expect(proxied.map(({ line }) => line)).toEqual([
    'CONNECT api.openai.com:443',
    'CONNECT api.anthropic.com:443',
    'CONNECT generativelanguage.googleapis.com:443',
    'CONNECT api.mistral.ai:443',
  ]);
  const { json } = await distrustful.cli(['models', 'list', '--json']);
  const { data } = json as { data: { id: string; pricing: unknown }[] };
  expect(models.map(id => data.find(each => each.id === id)?.pricing)).toMatchObject([
    { input: 1.25, output: 10, caching: { read: 0.125 } },
    { input: 2, output: 10 },
    { input: 1.25, output: 10, above: [{ input_tokens: 200_000, input: 2.5, output: 15 }] },
    { input: 0.3, output: 0.9 },
  ]);
});

test('the gateways’ output has no key and no proxy password', async () => {
  await failure('mistral', /Proxy response/);
  const printed = distrustful.printed() + trustful.printed();
  expect(printed.split('\n').length).toBeGreaterThan(10);
  for (const secret of [key, password]) {
    expect(printed).not.toContain(secret);
    expect(printed).not.toContain(Buffer.from(`user:${secret}`).toString('base64'));
  }
});
