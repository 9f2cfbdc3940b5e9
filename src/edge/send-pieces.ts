import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { AnswerHeaders } from './call.ts';
import { ClientGone, ClientWatch } from './client-watch.ts';
import type { Edge } from './edge.ts';
import { answerError } from './error-answer.ts';
import { recordRequest } from './request-record.ts';

/** An answer whose body is sent as it arrives. */
export interface StreamedBody {
  /** Its type and length, which are known before its first piece. */
  readonly headers: AnswerHeaders;
  readonly pieces: AsyncIterable<Uint8Array>;
}

/** Sends bytes as they arrive, no faster than the client reads them. Never rejects: an error of `open` is answered as an error. */
export async function answerStreamed(
  edge: Edge,
  { request, reply }: { readonly request: FastifyRequest; readonly reply: FastifyReply },
  open: (signal: AbortSignal) => Promise<StreamedBody>,
): Promise<void> {
  reply.hijack();
  const client = new ClientWatch(request.raw.socket);
  try {
    const { headers, pieces } = await open(client.signal);
    const sent = { ...request.call.headers, ...headers };
    if (edge.stopping()) sent['connection'] = 'close';
    reply.raw.writeHead(200, sent);
    await sendPieces(reply.raw, pieces, client);
    recordRequest(edge, request, { status: 200 });
  } catch (thrown) {
    // A truncated body must not look complete.
    if (reply.raw.headersSent) reply.raw.destroy();
    await answerError(edge, request, reply, { thrown: client.isGone ? new ClientGone() : thrown });
  } finally {
    client.release();
  }
}

/** Writes the pieces of a body and ends it, no faster than the client reads them. Throws `ClientGone` if it has disconnected. */
export async function sendPieces(
  response: ServerResponse,
  pieces: AsyncIterable<Uint8Array>,
  client: Pick<ClientWatch, 'isGone' | 'signal'>,
): Promise<void> {
  for await (const piece of pieces) {
    if (!response.write(piece)) await once(response, 'drain', { signal: client.signal }).catch(() => undefined);
    if (client.isGone) throw new ClientGone();
  }
  response.end();
}
