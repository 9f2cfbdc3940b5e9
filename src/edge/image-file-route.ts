import { once } from 'node:events';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { ReadFileResponse } from '../gen/tollgate/v1/image_pb.ts';
import type { AnswerHeaders } from './call.ts';
import { ClientGone, ClientWatch } from './client-watch.ts';
import type { Edge } from './edge.ts';
import { answerError } from './error-answer.ts';
import { recordRequest } from './request-record.ts';

/**
 * Registers `GET /v1/images/files/{token}.{png|webp|jpeg}`, which returns an image that was delivered by address. The token in the path is
 * the credential. Source: docs/interfaces/images.md "Image URLs".
 */
export function registerImageFiles(app: FastifyInstance, edge: Edge): void {
  app.get<{ Params: { name: string } }>('/v1/images/files/:name', (request, reply) => {
    reply.hijack();
    void answerFile(edge, request, reply, request.params.name);
  });
}

/** Sends the image. Never rejects: failures are answered. */
async function answerFile(edge: Edge, request: FastifyRequest, reply: FastifyReply, name: string): Promise<void> {
  const client = new ClientWatch(request.raw.socket);
  const parts = edge.images.readFile({ name }, { signal: client.signal });
  try {
    const status = await sendFile({ edge, request, reply, client }, parts);
    recordRequest(edge, request, { status });
  } catch (thrown) {
    // A truncated image must not look complete.
    if (reply.raw.headersSent) reply.raw.destroy();
    await answerError(edge, request, reply, { thrown: client.isGone ? new ClientGone() : thrown });
  } finally {
    client.release();
    await parts.return?.();
  }
}

interface FileJob {
  readonly edge: Edge;
  readonly request: FastifyRequest;
  readonly reply: FastifyReply;
  readonly client: ClientWatch;
}

async function sendFile(
  { edge, request, reply, client }: FileJob,
  parts: AsyncIterator<ReadFileResponse>,
): Promise<number> {
  const first = await parts.next();
  if (first.done === true || first.value.content.case !== 'file') throw new Error('a file without its facts');
  const { mediaType, size, etag } = first.value.content.value;
  const headers: AnswerHeaders = {
    ...request.call.headers,
    'content-type': mediaType,
    etag: `"${etag}"`,
    'cache-control': 'private',
    'x-content-type-options': 'nosniff',
  };
  if (edge.stopping()) headers['connection'] = 'close';
  const { raw } = reply;
  if (isKnown(request.headers['if-none-match'], etag)) {
    raw.writeHead(304, headers).end();
    return 304;
  }
  raw.writeHead(200, { ...headers, 'content-length': Number(size) });
  if (request.method !== 'HEAD') {
    for (let next = await parts.next(); next.done !== true; next = await parts.next()) {
      const { content } = next.value;
      if (content.case !== 'chunk' || raw.write(content.value)) continue;
      await drained(reply, client);
    }
  }
  raw.end();
  return 200;
}

/** Returns whether the client already has this content. Source: RFC 9110 13.1.2. */
function isKnown(header: string | undefined, etag: string): boolean {
  if (header === undefined) return false;
  const tags = header.split(',').map(tag => tag.trim().replace(/^W\//, ''));
  return tags.includes('*') || tags.includes(`"${etag}"`);
}

/** Resolves when the client has read everything that was written. Throws `ClientGone`. */
async function drained({ raw }: FastifyReply, client: ClientWatch): Promise<void> {
  await once(raw, 'drain', { signal: client.signal }).catch(() => undefined);
  if (client.isGone) throw new ClientGone();
}
