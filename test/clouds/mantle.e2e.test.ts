/** Models of OpenAI's protocols on Amazon Bedrock, which refuse one of two prefixes, and Claude beside them. */
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { chatWire, responsesWire } from '../e2e/upstream-wires.ts';
import { endGateway, type Gateway } from '../gateway.ts';
import { startGateway } from '../hosted-gateway.ts';
import { post } from '../e2e/chat-client.ts';
import { CloudServer, sendJson } from './cloud-server.ts';
import { type Secrets, verifySignature } from './sigv4.ts';

const region = 'us-east-1';
const secrets: Secrets = new Map([['AKIA1', { secret: 'abc' }]]);
let mantle: CloudServer;
let gateway: Gateway;

const model = (id: string, provider: string): string =>
  `  - { id: ${id}, pricing: { input: 1, output: 10 }, routes: [{ provider: ${provider}, model: ${id} }] }`;

beforeAll(async () => {
  mantle = await CloudServer.start((request, response) => {
    const { url, body } = request;
    const service = request.headers['x-service'] === 'runtime' ? 'bedrock' : 'bedrock-mantle';
    if ('refused' in verifySignature(request, secrets, { region, service }))
      sendJson(response, 403, { message: 'signature' });
    else if (body['model'] === 'openai.plain' && url.startsWith('/openai/')) {
      sendJson(response, 400, {
        error: { message: `The model 'openai.plain' isn't supported on this route`, code: 'validation_error' },
      });
    } else {
      const wire = url.endsWith('/responses') ? responsesWire : chatWire;
      const usage = wire.counts({ input: 1, output: 1 });
      const text = [
        wire.begun,
        ...wire.texts,
        ...wire.call.map(({ frame }) => frame),
        wire.finish,
        wire.usage(usage),
        wire.end,
      ].join('');
      if (body['stream'] === true) response.writeHead(200, { 'content-type': 'text/event-stream' }).end(text);
      else sendJson(response, 200, JSON.parse(wire.whole(usage)));
    }
  });
  const shared = `cloud: bedrock, region: ${region}, base_url: "${mantle.origin}", credentials: { access_key_id: AKIA1, secret_access_key: abc }`;
  gateway = await startGateway({
    config: `
retries: 0
timeouts: { connect: 60s }
providers:
  mantle: { endpoint: mantle, ${shared} }
  runtime: { headers: { x-service: runtime }, ${shared} }
models:
${model('openai.gpt-oss-120b', 'mantle')}
${model('openai.plain', 'mantle')}
${model('openai.gpt-oss-20b', 'runtime')}
`,
  });
});
beforeEach(() => void mantle.requests.splice(0));
afterAll(async () => {
  await endGateway(gateway);
  mantle.stop();
});

const messages = [{ role: 'user', content: 'hi' }];
const urls = (): string[] => mantle.requests.map(({ url }) => url);

test('each protocol goes below /openai/v1, signed for its endpoint', async () => {
  expect((await post(gateway, '/v1/responses', { model: 'openai.gpt-oss-120b', input: 'hi' })).status).toBe(200);
  expect((await post(gateway, '/v1/chat/completions', { model: 'openai.gpt-oss-120b', messages })).status).toBe(200);
  expect((await post(gateway, '/v1/chat/completions', { model: 'openai.gpt-oss-20b', messages })).status).toBe(200);
  expect(urls()).toEqual(['/openai/v1/responses', '/openai/v1/chat/completions', '/openai/v1/chat/completions']);
});

test('a model that is served below /v1 is found there unseen, and remembered', async () => {
  const ask = () => post(gateway, '/v1/chat/completions', { model: 'openai.plain', messages, stream: true });
  const answers = [await ask(), await ask()];
  expect(answers.map(({ status }) => status)).toEqual([200, 200]);
  for (const answer of answers) expect(await answer.text()).not.toContain('error');
  expect(urls()).toEqual(['/openai/v1/chat/completions', '/v1/chat/completions', '/v1/chat/completions']);
});
