/**
 * The upstream of the benches, a process of its own: Chat Completions on a bare socket, as cheap as it can be, so that it is never what is measured.
 * The model's name says what it answers; whatever else stands in a request is ignored. Prints its port.
 */
import { createServer, type Socket } from 'node:net';

/** Deltas of a streamed answer. */
const streamDeltas = 200;
/** Deltas of a short answer that is asked for whole. */
const wordDeltas = 40;
/** What a client that never reads is sent. */
const floodBytes = 200_000_000;

const head = { id: 'chatcmpl-bench', created: 1_760_000_000, model: 'bench', system_fingerprint: 'fp_bench' };
const usage = { prompt_tokens: 12, completion_tokens: 200, total_tokens: 212 };

function frame(delta: object, finish: string | null = null): string {
  const choices = [{ index: 0, delta, logprobs: null, finish_reason: finish }];
  return `data: ${JSON.stringify({ ...head, object: 'chat.completion.chunk', choices, usage: null })}\n\n`;
}

/** A part of a chunked body. */
function chunk(text: string): Buffer {
  return Buffer.from(`${Buffer.byteLength(text).toString(16)}\r\n${text}\r\n`);
}

const first = frame({ role: 'assistant', content: '' });
const delta = frame({ content: ' bench' });
const last = `${frame({}, 'stop')}data: ${JSON.stringify({ ...head, object: 'chat.completion.chunk', choices: [], usage })}\n\ndata: [DONE]\n\n`;
const end = '0\r\n\r\n';
const streamHead = Buffer.from(
  'HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n',
);

const begun = Buffer.concat([streamHead, chunk(first)]);
const deltaChunk = chunk(delta);
const ended = Buffer.concat([chunk(last), Buffer.from(end)]);
const floodChunk = chunk(delta.repeat(200));

function atOnce(deltas: number): Buffer {
  return Buffer.concat([streamHead, chunk(first + delta.repeat(deltas) + last), Buffer.from(end)]);
}

function wholeAnswer(deltas: number): Buffer {
  const message = { role: 'assistant', content: ' bench'.repeat(deltas), refusal: null };
  const choices = [{ index: 0, message, logprobs: null, finish_reason: 'stop' }];
  const body = JSON.stringify({ ...head, object: 'chat.completion', choices, usage });
  return Buffer.from(
    `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
  );
}

const answers = {
  short: { streamed: atOnce(1), whole: wholeAnswer(1) },
  words: { streamed: atOnce(wordDeltas), whole: wholeAnswer(wordDeltas) },
};

/** One delta a turn of the loop to every running stream, as many models at once would. */
const running = new Map<Socket, number>();
let turning = false;

function turn(): void {
  for (const [socket, left] of running) {
    if (left > 0) {
      socket.write(deltaChunk);
      running.set(socket, left - 1);
    } else {
      running.delete(socket);
      socket.write(ended);
    }
  }
  turning = running.size > 0;
  if (turning) setImmediate(turn);
}

function stream(socket: Socket): void {
  socket.write(begun);
  running.set(socket, streamDeltas);
  if (turning) return;
  turning = true;
  setImmediate(turn);
}

function flood(socket: Socket): void {
  socket.write(begun);
  let left = floodBytes;
  const pour = (): void => {
    while (left > 0 && !socket.destroyed) {
      left -= floodChunk.length;
      if (!socket.write(floodChunk)) return;
    }
    socket.off('drain', pour);
    socket.write(ended);
  };
  socket.on('drain', pour);
  pour();
}

function answer(socket: Socket, body: string): void {
  const model = /"model":"bench[-/](\w+)"/.exec(body)?.[1];
  const wanted = body.includes('"stream":true') ? 'streamed' : 'whole';
  if (model === 'short' || model === 'words') socket.write(answers[model][wanted]);
  else if (model === 'stream') stream(socket);
  else if (model === 'flood') flood(socket);
  else socket.write(begun);
}

const server = createServer({ noDelay: true }, socket => {
  let text = '';
  socket.setEncoding('latin1');
  socket.on('error', () => socket.destroy());
  socket.on('close', () => running.delete(socket));
  socket.on('data', (piece: string) => {
    text += piece;
    const bodyAt = text.indexOf('\r\n\r\n') + 4;
    if (bodyAt < 4) return;
    const length = Number(/content-length: *(\d+)/i.exec(text.slice(0, bodyAt))?.[1] ?? 0);
    if (text.length < bodyAt + length) return;
    const body = text.slice(bodyAt, bodyAt + length);
    text = text.slice(bodyAt + length);
    answer(socket, body);
  });
});

server.listen(0, '127.0.0.1', () => {
  const address = server.address();
  process.stdout.write(`${typeof address === 'object' && address !== null ? address.port : ''}\n`);
});
