import type { IncomingMessage, ServerResponse } from 'node:http';
import type { UniversalServerResponse } from '@connectrpc/connect/protocol';

/**
 * Writes a handler's reply as fast as its caller reads; `gone` is aborted when the caller disconnects. However the exchange ends, `return`
 * is called on the body, so that the service releases the call's resources: the stock writer waits for ever if an HTTP/2 caller that does
 * not read disconnects. The connection of an HTTP/1.1 request is closed if its body was not read to the end.
 */
export async function writeReply(
  reply: UniversalServerResponse,
  { request, response }: { readonly request: IncomingMessage; readonly response: ServerResponse },
  gone: AbortSignal,
): Promise<void> {
  const body = reply.body?.[Symbol.asyncIterator]();
  try {
    // Services may set headers until their first message.
    let chunk = await body?.next();
    if (gone.aborted) return;
    const isCut = request.httpVersionMajor === 1 && !request.complete;
    if (isCut) response.setHeader('connection', 'close');
    response.writeHead(reply.status, Object.fromEntries(reply.header ?? []));
    for (; chunk !== undefined && chunk.done !== true; chunk = await body?.next()) {
      if (!response.write(chunk.value)) await drained(response, gone);
      if (gone.aborted) return;
    }
    if (reply.trailer !== undefined) response.addTrailers(Object.fromEntries(reply.trailer));
    if (isCut) await discardRest(request);
    response.end();
  } finally {
    await body?.return?.();
  }
}

/**
 * How long the connection of a caller that still sends a refused body stays open: if it closed at once it would be reset, and the answer
 * lost.
 */
const lingerMs = 2_000;

/** Resolves when the rest of a body has come, or its caller has left or has taken too long. */
function discardRest(request: IncomingMessage): Promise<void> {
  return new Promise(resolve => {
    const done = (): void => {
      clearTimeout(timer);
      request.off('end', done).off('close', done);
      resolve();
    };
    const timer = setTimeout(done, lingerMs);
    request.on('error', () => undefined);
    request.on('end', done).on('close', done).resume();
  });
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
