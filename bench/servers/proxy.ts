/**
 * What the gateway is compared with, a process of its own: the least that a proxy of these packages can do. It checks nothing, counts nothing and
 * stores nothing. Whole answers pass as text; of a stream each chunk is parsed and written again. Argument: the upstream's origin. Prints its port.
 */
import fastify from 'fastify';
import { Pool } from 'undici';

const [, , origin] = process.argv;
if (origin === undefined) throw new Error('usage: proxy.ts UPSTREAM_ORIGIN');
const pool = new Pool(origin, { connections: null, pipelining: 1 });
const app = fastify({ logger: false });

app.post<{ Body: { stream?: boolean } }>('/v1/chat/completions', async (request, reply) => {
  const { statusCode, body } = await pool.request({
    path: '/v1/chat/completions',
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(request.body),
  });
  if (request.body.stream !== true) {
    return reply
      .code(statusCode)
      .type('application/json')
      .send(await body.text());
  }
  reply.hijack();
  reply.raw.writeHead(statusCode, { 'content-type': 'text/event-stream' });
  let text = '';
  for await (const piece of body.setEncoding('utf8')) {
    text += String(piece);
    let frames = '';
    let from = 0;
    for (let to = text.indexOf('\n\n'); to !== -1; to = text.indexOf('\n\n', from)) {
      const data = text.slice(from + 'data: '.length, to);
      frames += data === '[DONE]' ? 'data: [DONE]\n\n' : `data: ${JSON.stringify(JSON.parse(data))}\n\n`;
      from = to + 2;
    }
    text = text.slice(from);
    reply.raw.write(frames);
  }
  reply.raw.end();
  return undefined;
});

await app.listen({ host: '127.0.0.1', port: 0 });
const address = app.server.address();
process.stdout.write(`${typeof address === 'object' && address !== null ? address.port : ''}\n`);
