/**
 * Kinds of clients that take more than their share, each run by this program against a gateway until it is killed: `abuse.ts KIND`, with an `AbuseTarget` as JSON in `ABUSE_TARGET`. It is a process of its own, so that
 * its work does not delay the client that the test measures.
 */
import { connect as connectHttp2 } from 'node:http2';
import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { brotliCompressSync } from 'node:zlib';
import { WebSocket } from 'ws';
import { attackBytes } from '../rpc/raw-http2.ts';

/** A gateway, and the credentials of the account that abuses it. */
export interface AbuseTarget {
  readonly url: string;
  readonly rpcUrl: string;
  readonly apiKey: string;
  /** How many times as much as in `npm test`. */
  readonly scale: number;
}

const target = JSON.parse(process.env['ABUSE_TARGET'] ?? '{"scale":1,"url":"","rpcUrl":"","apiKey":""}') as AbuseTarget;
const { url, rpcUrl, apiKey, scale } = target;
const wrongKey = `sk-tg-${'z'.repeat(43)}`;
const countPath = '/tollgate.v1.GenerationService/CountTokens';
const fast = 'fast/model';
const letters = 'letters/model';
const sim = 'sim/small';

function portOf(origin: string): number {
  return Number(new URL(origin).port);
}

/** Returns a request as the text of an HTTP message. */
function message(path: string, body: string | undefined, more: readonly string[] = [], key = apiKey): string {
  const head = [
    `${body === undefined ? 'GET' : 'POST'} ${path} HTTP/1.1`,
    'host: gateway',
    `authorization: Bearer ${key}`,
    'content-type: application/json',
    ...(body === undefined ? [] : [`content-length: ${Buffer.byteLength(body)}`]),
    ...more,
  ];
  return `${head.join('\r\n')}\r\n\r\n${body ?? ''}`;
}

function chat(model: string, content: string, more: object = {}): string {
  return JSON.stringify({ model, messages: [{ role: 'user', content }], ...more });
}

/** Opens a connection, sends bytes, and reads what comes; when it closes, it is opened again. `reads`: false never reads. */
function keepSending(origin: string, bytes: string | Buffer, reads = true): void {
  const socket: Socket = connect(portOf(origin), '127.0.0.1');
  socket.on('error', () => undefined).on('close', () => setTimeout(keepSending, 5, origin, bytes, reads));
  if (reads) socket.resume();
  else socket.pause();
  const again = (): void => {
    if (socket.destroyed) return;
    if (socket.write(bytes)) setImmediate(again);
    else socket.once('drain', again);
  };
  again();
}

/** As `keepSending`, but sends the bytes once on each connection. */
function sendOnce(origin: string, bytes: string | Buffer, reads = true): void {
  const socket = connect(portOf(origin), '127.0.0.1');
  socket.on('error', () => undefined).on('close', () => setTimeout(sendOnce, 5, origin, bytes, reads));
  if (reads) socket.resume();
  else socket.pause();
  socket.write(bytes);
}

/** Sends requests one after the other, each on the connections of `fetch`. */
async function repeat(
  path: string,
  body: string | Buffer | undefined,
  headers: Record<string, string> = {},
  origin = url,
): Promise<never> {
  for (;;) {
    const method = body === undefined ? 'GET' : 'POST';
    const all = { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json', ...headers };
    await fetch(origin + path, { method, headers: all, body: body as never })
      .then(reply => reply.arrayBuffer())
      .catch(() => sleep(5));
  }
}

function times(count: number, run: () => unknown): void {
  for (let each = 0; each < count * scale; each += 1) run();
}

function openSocket(text: string, isAnswered: boolean): void {
  const socket = new WebSocket(`${url.replace('http', 'ws')}/v1/responses`, {
    headers: { authorization: `Bearer ${apiKey}` },
  });
  const send = (): void => {
    if (socket.readyState !== socket.OPEN) return;
    if (isAnswered) socket.send(text);
    else socket.ping(text);
    if (socket.bufferedAmount < 1_000_000) setImmediate(send);
    else setTimeout(send, 5);
  };
  socket
    .on('error', () => undefined)
    .on('open', send)
    .on('close', () => setTimeout(openSocket, 20, text, isAnswered));
}

function resetCalls(): void {
  sendOnce(rpcUrl, attackBytes(20_000, countPath));
}

function callOverHttp2(sendsBody: boolean): void {
  const session = connectHttp2(rpcUrl).on('error', () => undefined);
  session.on('close', () => setTimeout(callOverHttp2, 20, sendsBody));
  const open = (): void => {
    if (session.destroyed) return;
    const stream = session.request({
      ':method': 'POST',
      ':path': countPath,
      'content-type': 'application/proto',
      authorization: `Bearer ${apiKey}`,
    });
    stream
      .on('error', () => undefined)
      .on('close', open)
      .resume();
    if (sendsBody) stream.end();
  };
  for (let each = 0; each < 100; each += 1) open();
}

const stream = { stream: true, max_tokens: 100_000 };
const form = (file: string): string =>
  `--b\r\ncontent-disposition: form-data; name="purpose"\r\n\r\nbatch\r\n--b\r\ncontent-disposition: form-data; name="file"; filename="a.jsonl"\r\n\r\n${file}`;
const line = `${JSON.stringify({ custom_id: 'a', method: 'POST', url: '/v1/chat/completions', body: JSON.parse(chat(sim, 'Hi.')) as unknown })}\n`;

/** Every kind, by what it does. */
export const kinds: Readonly<Record<string, () => void>> = {
  'pipelines requests with a wrong key': () =>
    times(2, () => keepSending(url, message('/v1/models', undefined, [], wrongKey).repeat(200))),
  'pipelines requests that cost nothing': () =>
    times(2, () => keepSending(url, message('/v1/models', undefined).repeat(200))),
  'pipelines requests that generate': () =>
    times(2, () => keepSending(url, message('/v1/chat/completions', chat(sim, 'Hi.')).repeat(50))),
  'pipelines requests and reads nothing': () =>
    times(5, () => keepSending(url, message('/healthz', undefined).repeat(500), false)),
  'reads streams of a fast provider': () =>
    times(40, () => sendOnce(url, message('/v1/chat/completions', chat(fast, 'Go.', stream)))),
  'does not read streams of a fast provider': () =>
    times(40, () => sendOnce(url, message('/v1/chat/completions', chat(fast, 'Go.', stream)), false)),
  'reads streams of a built-in model without pace': () =>
    times(40, () => sendOnce(url, message('/v1/chat/completions', chat(sim, '!sim tokens=100000 tps=0', stream)))),
  'does not read streams of a built-in model': () =>
    times(40, () =>
      sendOnce(
        url,
        message('/v1/messages', chat(sim, '!sim tokens=100000 tps=0', stream), ['anthropic-version: 2023-06-01']),
        false,
      ),
    ),
  'streams one long run of letters': () =>
    times(10, () =>
      sendOnce(url, message('/v1/responses', JSON.stringify({ model: letters, input: 'Go.', stream: true }))),
    ),
  'asks for whole answers of a fast provider': () =>
    times(20, () => void repeat('/v1/chat/completions', chat(fast, 'Go.', { max_tokens: 2_000 }))),
  'sends wrong keys on new connections': () =>
    times(20, () => sendOnce(url, message('/v1/chat/completions', chat(sim, 'Hi.'), ['connection: close'], wrongKey))),
  'opens and closes connections': () =>
    times(30, () => sendOnce(url, 'GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n')),
  'sends heads byte by byte': () => times(50, () => keepSending(url, 'x')),
  'sends large headers': () =>
    times(10, () => keepSending(url, message('/v1/models', undefined, [`x-large: ${'x'.repeat(15_000)}`]))),
  'sends large bodies that are not JSON': () =>
    times(2, () => void repeat('/v1/chat/completions', `${chat(sim, 'x'.repeat(900_000)).slice(0, -1)},`)),
  'sends bodies of many values': () =>
    times(
      2,
      () =>
        void repeat(
          '/v1/chat/completions',
          JSON.stringify({ model: sim, messages: Array(9_000).fill({ role: 'user', content: 'x' }) }),
        ),
    ),
  'has the tokens of large texts counted': () =>
    times(
      2,
      () =>
        void repeat('/v1/messages/count_tokens', chat(sim, 'word '.repeat(150_000)), {
          'anthropic-version': '2023-06-01',
        }),
    ),
  'has the tokens of long runs of letters counted': () =>
    times(
      2,
      () =>
        void repeat('/v1/messages/count_tokens', chat(sim, 'x'.repeat(800_000)), { 'anthropic-version': '2023-06-01' }),
    ),
  'sends many inputs for vectors': () =>
    times(
      2,
      () =>
        void repeat(
          '/v1/embeddings',
          JSON.stringify({ model: 'sim/embed', input: Array(1_000).fill('A text of some words.') }),
        ),
    ),
  'ranks many documents': () =>
    times(
      2,
      () =>
        void repeat(
          '/v1/rerank',
          JSON.stringify({ model: 'sim/rerank', query: 'words', documents: Array(900).fill('A text of some words.') }),
        ),
    ),
  'uploads broken forms': () =>
    times(
      4,
      () => void repeat('/v1/files', form(line.repeat(5_000)), { 'content-type': 'multipart/form-data; boundary=b' }),
    ),
  'uploads files': () =>
    times(
      4,
      () =>
        void repeat('/v1/files', `${form(line.repeat(2_000))}\r\n--b--\r\n`, {
          'content-type': 'multipart/form-data; boundary=b',
        }),
    ),
  'sends pings over WebSockets': () => times(4, () => openSocket('x'.repeat(100), false)),
  'sends messages over WebSockets': () =>
    times(4, () =>
      openSocket(JSON.stringify({ type: 'response.create', response: { model: sim, input: 'Hi.' } }), true),
    ),
  'cancels calls of the internal listener at once': () => times(2, resetCalls),
  'makes calls of the internal listener': () => times(2, () => callOverHttp2(true)),
  'holds back the bodies of calls': () => times(2, () => callOverHttp2(false)),
  'sends compressed bombs to the internal listener': () => {
    const bomb = brotliCompressSync(Buffer.alloc(8 << 20, Buffer.from([0xc0, 0x3e, 0x01])));
    times(
      4,
      () => void repeat(countPath, bomb, { 'content-type': 'application/proto', 'content-encoding': 'br' }, rpcUrl),
    );
  },
  'pipelines requests to the internal listener': () =>
    times(2, () => keepSending(rpcUrl, 'GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n'.repeat(200))),
};

const kind = process.argv[2];
if (process.env['ABUSE_TARGET'] !== undefined && kind !== undefined) {
  kinds[kind]?.();
  // Connections that are not read keep no process alive.
  setInterval(() => undefined, 60_000);
}
