import type { ServerResponse } from 'node:http';
import type { UniversalServerResponse } from '@connectrpc/connect/protocol';

/**
 * Writes a handler's reply as fast as its caller reads; `gone` is aborted when the caller is. However the exchange ends, the body is told
 * (`return`), so that what a service holds for the call is given back: the stock writer waits for ever where an HTTP/2 caller that does
 * not read goes away.
 */
export async function writeReply(
  reply: UniversalServerResponse,
  response: ServerResponse,
  gone: AbortSignal,
): Promise<void> {
  const body = reply.body?.[Symbol.asyncIterator]();
  try {
    // Services may set headers until their first message.
    let chunk = await body?.next();
    if (gone.aborted) return;
    response.writeHead(reply.status, Object.fromEntries(reply.header ?? []));
    for (; chunk !== undefined && chunk.done !== true; chunk = await body?.next()) {
      if (!response.write(chunk.value)) await drained(response, gone);
      if (gone.aborted) return;
    }
    if (reply.trailer !== undefined) response.addTrailers(Object.fromEntries(reply.trailer));
    response.end();
  } finally {
    await body?.return?.();
  }
}

function drained(response: ServerResponse, gone: AbortSignal): Promise<void> {
  return new Promise(resolve => {
    const done = (): void => {
      response.off('drain', done);
      gone.removeEventListener('abort', done);
      resolve();
    };
    response.on('drain', done);
    gone.addEventListener('abort', done);
    if (gone.aborted) done();
  });
}
