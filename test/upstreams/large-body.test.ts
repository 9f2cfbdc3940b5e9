/** Bodies of megabytes are written while they are sent. */
import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect, test } from 'vitest';
import { Role } from '../../src/gen/tollgate/v1/content_pb.ts';
import { chatUpstream, collectAnswer, golden, isWhole, makeCall, makeKeys } from './call-upstream.ts';

interface Received {
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

const text = `${'a "quoted" text, 😀 '.repeat(100_000)}\ud83d`;
const part = { content: { case: 'text' as const, value: { text } } };
const items = [{ content: { case: 'message' as const, value: { role: Role.USER, parts: [part] } } }];

/** Sends a large body to a provider that refuses the first key by `refuse`. Returns what the provider has read, and what the tap got. */
async function sendLarge(refuse: (request: IncomingMessage, response: ServerResponse) => Promise<void>) {
  const received: Received[] = [];
  const server = createServer((request, response) => {
    if (request.headers.authorization === 'Bearer refused') return void refuse(request, response);
    void readBody(request).then(body => {
      received.push({ headers: request.headers, body });
      response.writeHead(200, { 'content-type': 'text/event-stream' }).end(golden);
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const upstream = chatUpstream(`http://127.0.0.1:${port}/v1`, { keys: makeKeys('refused', 'accepted') });
  const tapped: Buffer[] = [];
  const tap = { sent: (bytes: Uint8Array) => void tapped.push(Buffer.from(bytes)), received: () => undefined };
  const answered = await collectAnswer(upstream, makeCall({ items }, { tap }));
  await upstream.close();
  server.close();
  return { received, answered, tapped: Buffer.concat(tapped).toString() };
}

async function readBody(request: IncomingMessage): Promise<string> {
  return Buffer.concat(await request.toArray()).toString();
}

function refuse(response: ServerResponse): void {
  response.writeHead(401, { 'content-type': 'application/json' }).end('{"error":{"message":"no"}}');
}

test.each([
  [
    'after it has read the body',
    async (request, response) => {
      await readBody(request);
      refuse(response);
    },
  ],
  ['before it has read the body', async (_request, response) => refuse(response)],
] as [string, Parameters<typeof sendLarge>[0]][])(
  'a provider that refuses a key %s gets the whole body with the next key, with its length and not in chunks',
  async (_when, refuseKey) => {
    const { received, answered, tapped } = await sendLarge(refuseKey);
    expect(isWhole(answered.events)).toBe(true);
    expect(received).toHaveLength(1);
    const [{ headers, body }] = received as [Received];
    const { messages } = JSON.parse(body) as { messages: { content: string }[] };
    expect(messages[0]?.content).toBe(text.toWellFormed());
    expect(headers['content-length']).toBe(String(Buffer.byteLength(body)));
    expect(headers['transfer-encoding']).toBeUndefined();
    // The tap gets each byte once.
    expect(tapped).toBe(body);
  },
);
