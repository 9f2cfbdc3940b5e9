/**
 * The baseline of the comparison, as a separate process: the least that a proxy with these packages has to do. It checks,
 * counts and stores nothing. Non-streamed answers are passed on as text, streams as bytes. Argument: the
 * upstream's origin. Prints its port.
 */
import { pipeline } from 'node:stream/promises';
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
  await pipeline(body, reply.raw);
  return undefined;
});

await app.listen({ host: '127.0.0.1', port: 0 });
const address = app.server.address();
process.stdout.write(`${typeof address === 'object' && address !== null ? address.port : ''}\n`);
