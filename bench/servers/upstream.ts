/**
 * The upstream of the benches, as a separate process: Chat Completions on a bare socket, as cheap as possible, so that its cost does not show in the results.
 * The model's name and `stream` determine the answer; everything else in a request is ignored. Prints its port.
 */
import { createServer, type Socket } from 'node:net';

/** The number of deltas in a long stream; also in `rows/throughput.ts`. */
const streamDeltas = 500;
/** The time between two deltas of a long stream, in ms. It is so long that neither load generator nor gateway lags; otherwise deltas would pile up in the sockets and be read together. */
const deltaMs = 5;
/** The time from the first event of a `first` stream to its end, in ms. */
const firstLeadMs = 20;
/** The time to the first event of a `late` stream, in ms. It then takes as long as a `first` one: 300 ms in all, like a short answer of a fast model. */
const lateMs = 280;
/** The number of deltas in an answer that is sent at once. */
const wordDeltas = 40;
/** The size of the answer to a client that never reads. */
const floodBytes = 200_000_000;

const head = { id: 'chatcmpl-bench', created: 1_760_000_000, model: 'bench', system_fingerprint: 'fp_bench' };

/** Returns the usage: one token for each delta, as a tokenizer counts them, and 12 for the request (also in `targets.ts`). */
function countUsage(deltas: number): object {
  return { prompt_tokens: 12, completion_tokens: deltas, total_tokens: 12 + deltas };
}

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
function endFrames(deltas: number): string {
  const counted = { ...head, object: 'chat.completion.chunk', choices: [], usage: countUsage(deltas) };
  return `${frame({}, 'stop')}data: ${JSON.stringify(counted)}\n\ndata: [DONE]\n\n`;
}
const end = '0\r\n\r\n';
const streamHead = Buffer.from(
  'HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n',
);

const begun = Buffer.concat([streamHead, chunk(first)]);
const deltaChunk = chunk(delta);
const ended = Buffer.concat([chunk(endFrames(streamDeltas)), Buffer.from(end)]);
const floodChunk = chunk(delta.repeat(200));

function atOnce(deltas: number): Buffer {
  return Buffer.concat([streamHead, chunk(first + delta.repeat(deltas) + endFrames(deltas)), Buffer.from(end)]);
}

function wholeAnswer(deltas: number): Buffer {
  const message = { role: 'assistant', content: ' bench'.repeat(deltas), refusal: null };
  const choices = [{ index: 0, message, logprobs: null, finish_reason: 'stop' }];
  const body = JSON.stringify({ ...head, object: 'chat.completion', choices, usage: countUsage(deltas) });
  return Buffer.from(
    `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
  );
}

const answers = {
  short: { streamed: atOnce(1), whole: wholeAnswer(1) },
  words: { streamed: atOnce(wordDeltas), whole: wholeAnswer(wordDeltas) },
};

/** Running streams and how many deltas each has left: those with a fixed pace, and those at full speed. */
const paced = new Map<Socket, number>();
const unpaced = new Map<Socket, number>();

function sendDeltas(running: Map<Socket, number>): void {
  for (const [socket, left] of running) {
    if (left > 0) {
      socket.write(deltaChunk);
      running.set(socket, left - 1);
    } else {
      running.delete(socket);
      socket.write(ended);
    }
  }
}

function sendUnpaced(): void {
  sendDeltas(unpaced);
  if (unpaced.size > 0) setImmediate(sendUnpaced);
}

function stream(socket: Socket, running: Map<Socket, number>): void {
  socket.write(begun);
  if (running === unpaced && unpaced.size === 0) setImmediate(sendUnpaced);
  running.set(socket, streamDeltas);
}

/** Sends the first event, and the end after `firstLeadMs`. */
function beginStream(socket: Socket): void {
  socket.write(begun);
  setTimeout(() => socket.write(ended), firstLeadMs);
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
  // Some gateways first read the list of models.
  if (body === '') {
    socket.write('HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n');
    return;
  }
  const { model, stream: isStreamed = false } = JSON.parse(body) as { model: string; stream?: boolean };
  const name = model.replace(/^.*bench[-/]/, '');
  const wanted = isStreamed ? 'streamed' : 'whole';
  if (name === 'short' || name === 'words') socket.write(answers[name][wanted]);
  else if (name === 'capped') socket.write(answers.words[wanted]);
  else if (name === 'burst') socket.write(answers.words.streamed);
  else if (name === 'first') beginStream(socket);
  else if (name === 'late') setTimeout(() => beginStream(socket), lateMs);
  else if (name === 'stream') stream(socket, paced);
  else if (name === 'torrent') stream(socket, unpaced);
  else if (name === 'flood') flood(socket);
  else socket.write(begun);
}

setInterval(() => sendDeltas(paced), deltaMs);
const server = createServer({ noDelay: true }, socket => {
  let text = '';
  socket.setEncoding('latin1');
  socket.on('error', () => socket.destroy());
  socket.on('close', () => {
    paced.delete(socket);
    unpaced.delete(socket);
  });
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
