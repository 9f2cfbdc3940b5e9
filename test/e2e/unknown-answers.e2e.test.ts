/**
 * Unknown members of answers are passed on: whatever an upstream adds to an answer, streamed or not, reaches a client of the same protocol
 * at the same path, with all digits of numbers and in the same order.
 */
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import fc from 'fast-check';
import { afterAll, describe, expect, test } from 'vitest';
import { answerSamples, type StrangeAnswer, strangeAnswer, typeIn } from '../contracts/answer-samples.ts';
import { type JsonTree, readTree } from '../contracts/json-tree.ts';
import { endGateway } from '../gateway.ts';
import { startGateway } from '../hosted-gateway.ts';
import { configureProtocols } from './protocol-routes.ts';
import { sseMessages } from './sse-reader.ts';

type ProtocolName = keyof typeof answerSamples;
const protocols = Object.keys(answerSamples) as ProtocolName[];

let answer: StrangeAnswer = { frames: [], planted: [] };
const server = createServer((request, response) => {
  request.resume().on('end', () => {
    const { frames } = answer;
    const [whole] = frames;
    const isStream = frames.length > 1;
    response.writeHead(200, { 'content-type': isStream ? 'text/event-stream' : 'application/json' });
    response.end(isStream ? frames.map(toSse).join('') : whole);
  });
});

function toSse(frame: string): string {
  const type = typeIn(readTree(frame));
  return `${type === '' ? '' : `event: ${type}\n`}data: ${frame}\n\n`;
}

server.listen(0, '127.0.0.1');
await once(server, 'listening');
const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
const gateway = await startGateway({
  config: `retries: 0\n${configureProtocols(protocols, origin)}`,
  balance: '100',
});
afterAll(async () => {
  await endGateway(gateway);
  server.closeAllConnections();
  server.close();
  await once(server, 'close');
});

const schema = { type: 'object', properties: { a: { type: 'integer' } } };
const requests = {
  chat: {
    path: '/v1/chat/completions',
    body: {
      messages: [{ role: 'user', content: 'Hi' }],
      tools: [{ type: 'function', function: { name: 'f', parameters: schema } }],
    },
    stream: { stream: true, stream_options: { include_usage: true } },
  },
  responses: {
    path: '/v1/responses',
    body: { input: 'Hi', store: false, tools: [{ type: 'function', name: 'f', parameters: schema }] },
    stream: { stream: true },
  },
  gemini: {
    path: '/v1beta/models/via/gemini:generateContent',
    streamPath: '/v1beta/models/via/gemini:streamGenerateContent?alt=sse',
    body: {
      contents: [{ role: 'user', parts: [{ text: 'Hi' }] }],
      tools: [{ functionDeclarations: [{ name: 'f', parametersJsonSchema: schema }] }],
      generationConfig: { thinkingConfig: { includeThoughts: true } },
    },
    stream: {},
  },
  messages: {
    path: '/v1/messages',
    body: {
      max_tokens: 1_000,
      messages: [{ role: 'user', content: 'Hi' }],
      tools: [{ name: 'f', input_schema: schema }],
    },
    stream: { stream: true },
  },
} satisfies Record<ProtocolName, RequestSample>;

/** A request of each protocol, and what makes it a stream: a path or members. */
interface RequestSample {
  readonly path: string;
  readonly streamPath?: string;
  readonly body: object;
  readonly stream: object;
}

/** Sends a request, and returns what a client of the protocol gets: the frames of a stream, or one whole answer. */
async function ask(protocol: ProtocolName, isStream: boolean): Promise<JsonTree[]> {
  const { path, streamPath = path, body, stream }: RequestSample = requests[protocol];
  const response = await fetch(`${gateway.url}${isStream ? streamPath : path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${gateway.apiKey}` },
    body: JSON.stringify({ model: `via/${protocol}`, ...body, ...(isStream ? stream : {}) }),
  });
  const text = await response.text();
  expect([response.status, response.status === 200 ? '' : text]).toEqual([200, '']);
  const texts = isStream ? sseMessages(text).filter(each => each !== '[DONE]') : [text];
  return texts.map(readTree);
}

/** An unknown member: the type of its frame, the names of its path, and its value. */
interface Found {
  readonly type: string;
  readonly path: readonly string[];
  readonly value: JsonTree;
}

function findMembers(
  tree: JsonTree,
  name: string,
  path: readonly string[] = [],
): { path: readonly string[]; value: JsonTree }[] {
  if (tree.kind === 'array') return tree.items.flatMap(item => findMembers(item, name, path));
  if (tree.kind !== 'object') return [];
  return tree.members.flatMap(([known, value]) =>
    known === name ? [{ path, value }] : findMembers(value, name, [...path, known]),
  );
}

function findAll(frames: readonly JsonTree[], name: string): Found[] {
  return frames.flatMap(frame => findMembers(frame, name).map(found => ({ type: typeIn(frame), ...found })));
}

describe.each(protocols)('%s', protocol => {
  test.each(['stream', 'whole'] as const)(
    '%s: unknown members arrive unchanged at the same path',
    { timeout: 120_000 },
    async kind => {
      await fc.assert(
        fc.asyncProperty(strangeAnswer(answerSamples[protocol][kind]), async strange => {
          answer = strange;
          const frames = await ask(protocol, kind === 'stream');
          for (const { name, type, path, value } of strange.planted) {
            expect(findAll(frames, name)).toContainEqual({ type, path, value });
          }
        }),
        { numRuns: 150 },
      );
    },
  );
});
