/** A provider that streams as fast as it is read, as a program of its own. It prints its port. A request for `letters` gets one long run of letters. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

function delta(content: string): string {
  return `data: ${JSON.stringify({ id: 'c', object: 'chat.completion.chunk', choices: [{ index: 0, delta: { content }, finish_reason: null }] })}\n\n`;
}

const words = delta(' word').repeat(400);
const letters = delta('abcdefghij'.repeat(5)).repeat(300);

const server = createServer((request, response) => {
  let body = '';
  request.on('error', () => undefined);
  response.on('error', () => undefined);
  request.on('data', (bytes: Buffer) => (body += bytes.toString()));
  request.on('end', () => {
    if (!body.includes('"stream":true')) {
      const choices = [
        { index: 0, message: { role: 'assistant', content: 'word '.repeat(2_000) }, finish_reason: 'stop' },
      ];
      response.writeHead(200, { 'content-type': 'application/json' });
      response.end(
        JSON.stringify({ choices, usage: { prompt_tokens: 7, completion_tokens: 2_000, total_tokens: 2_007 } }),
      );
      return;
    }
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    const piece = body.includes('letters') ? letters : words;
    const send = (): void => {
      if (response.destroyed) return;
      if (response.write(piece)) setImmediate(send);
      else response.once('drain', send);
    };
    send();
  });
});
server.listen(0, '127.0.0.1', () => console.log((server.address() as AddressInfo).port));
