/**
 * Unknown members of requests are not errors: whatever a client adds reaches an upstream of the same protocol unchanged, with all digits of numbers and in the same order. For an upstream of
 * another protocol or a built-in model, members that change what the model reads are refused, and others are ignored.
 */
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import fc from 'fast-check';
import { afterAll, describe, expect, test } from 'vitest';
import { type JsonTree, readTree } from '../contracts/json-tree.ts';
import { pathFor, samples, unknownRequest, withModel } from '../contracts/unknown-arbitraries.ts';
import { endGateway } from '../gateway.ts';
import { startGateway } from '../hosted-gateway.ts';
import { configureProtocols } from './protocol-routes.ts';

type ProtocolName = keyof typeof samples;
const protocols = Object.keys(samples) as ProtocolName[];

/** A whole answer of each protocol. */
const answers: Readonly<Record<string, object>> = {
  '/v1/chat/completions': {
    id: 'x',
    object: 'chat.completion',
    created: 1,
    model: 'm',
    choices: [{ index: 0, finish_reason: 'stop', message: { role: 'assistant', content: 'Hi' } }],
    usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
  },
  '/v1/responses': {
    id: 'resp_x',
    object: 'response',
    created_at: 1,
    status: 'completed',
    model: 'm',
    output: [
      {
        id: 'msg_1',
        type: 'message',
        role: 'assistant',
        status: 'completed',
        content: [{ type: 'output_text', text: 'Hi', annotations: [] }],
      },
    ],
    usage: { input_tokens: 1, output_tokens: 1, total_tokens: 2 },
  },
  '/v1beta/models/up-1:generateContent': {
    candidates: [{ content: { role: 'model', parts: [{ text: 'Hi' }] }, finishReason: 'STOP', index: 0 }],
    usageMetadata: { promptTokenCount: 1, candidatesTokenCount: 1, totalTokenCount: 2 },
    modelVersion: 'm',
    responseId: 'x',
  },
  '/v1/messages': {
    id: 'msg_x',
    type: 'message',
    role: 'assistant',
    model: 'm',
    content: [{ type: 'text', text: 'Hi' }],
    stop_reason: 'end_turn',
    stop_sequence: null,
    usage: { input_tokens: 1, output_tokens: 1 },
  },
};

let received = '';
const server = createServer((request, response) => {
  const chunks: Buffer[] = [];
  request.on('data', (chunk: Buffer) => chunks.push(chunk));
  request.on('end', () => {
    received = Buffer.concat(chunks).toString('utf8');
    response.writeHead(200, { 'content-type': 'application/json' });
    response.end(
      JSON.stringify(answers[request.url?.replace('streamGenerateContent?alt=sse', 'generateContent') ?? '']),
    );
  });
});
server.listen(0, '127.0.0.1');
await once(server, 'listening');
const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
const gateway = await startGateway({
  config: `retries: 0\nsimulator: { tokens_per_second: 0 }\n${configureProtocols(protocols, origin)}`,
  balance: '100',
});
afterAll(async () => {
  await endGateway(gateway);
  server.closeAllConnections();
  server.close();
  await once(server, 'close');
});

async function post(
  protocol: ProtocolName,
  tree: JsonTree,
  model: string,
): Promise<{ status: number; text: string; headers: Headers }> {
  const response = await fetch(`${gateway.url}${pathFor(samples[protocol], model)}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${gateway.apiKey}` },
    body: withModel(tree, model),
  });
  return { status: response.status, text: await response.text(), headers: response.headers };
}

interface ErrorShape {
  readonly code: string;
  readonly param?: string | null;
  /** Of Google's form, which has the code and the field here. */
  readonly details?: [{ readonly reason: string; readonly metadata: { readonly param?: string } }];
}

/** Returns the code of an error and the field that it names. */
function readError(text: string): { code: string; param: string | null | undefined } {
  const { error } = JSON.parse(text) as { error: ErrorShape };
  const [info] = Array.isArray(error.details) ? error.details : [];
  return info === undefined
    ? { code: error.code, param: error.param }
    : { code: info.reason, param: info.metadata.param };
}

/** Members that the gateway sets for the route. */
const routed = new Set([
  'model',
  'stream',
  'stream_options',
  'max_tokens',
  'max_completion_tokens',
  'max_output_tokens',
  'store',
]);

/** Returns the members of a body that come from the client, by name. */
function ownMembers(tree: JsonTree): Record<string, JsonTree> {
  const members = tree.kind === 'object' ? tree.members : [];
  return Object.fromEntries(members.filter(([name]) => !routed.has(name)));
}

describe.each(protocols)('%s', protocol => {
  test('an upstream of the same protocol gets every member that a client adds', { timeout: 120_000 }, async () => {
    const body = unknownRequest(samples[protocol], 'everything');
    await fc.assert(
      fc.asyncProperty(body, async sent => {
        const { status, text } = await post(protocol, sent, `via/${protocol}`);
        expect([status, status === 200 ? '' : text]).toEqual([200, '']);
        expect(ownMembers(readTree(received))).toEqual(ownMembers(sent));
      }),
      { numRuns: 150 },
    );
  });

  test(
    'for other upstreams and built-in models, the request is answered, or refused with 400 and the path of the member',
    { timeout: 120_000 },
    async () => {
      const models = [...protocols.filter(name => name !== protocol).map(name => `via/${name}`), 'sim/large'];
      await fc.assert(
        fc.asyncProperty(
          unknownRequest(samples[protocol], 'interface'),
          fc.constantFrom(...models),
          async (tree, model) => {
            const { status, text, headers } = await post(protocol, tree, model);
            if (status === 200) {
              const warned = headers.get('x-tollgate-warnings') ?? '';
              expect([warned, /dropped=/.test(warned)]).toEqual([warned, true]);
              return;
            }
            const { code, param } = readError(text);
            expect([status, code]).toEqual([400, expect.stringMatching(/^unsupported_(feature|parameter)$/)]);
            expect(param).toEqual(expect.any(String));
          },
        ),
        { numRuns: 150 },
      );
    },
  );
});
