import type { IncomingMessage, ServerResponse } from 'node:http';
import type { UniversalServerResponse } from '@connectrpc/connect/protocol';

/**
 * Writes a handler's reply as fast as its caller reads. `gone` is aborted when the caller disconnects. However the call ends, `return` is called on the body, so that the service releases the call's resources. Connect's writer does not do that: it waits forever if an HTTP/2 caller stops reading and then disconnects. An HTTP/1.1 connection is closed if the request's body was not read to its end.
 */
export async function writeReply(
  reply: UniversalServerResponse,
  { request, response }: { readonly request: IncomingMessage; readonly response: ServerResponse },
  gone: AbortSignal,
): Promise<void> {
  const body = reply.body?.[Symbol.asyncIterator]();
  try {
    // The first message is awaited, because services may set headers until then.
    let chunk = await body?.next();
    if (gone.aborted) return;
    const isUnread = request.httpVersionMajor === 1 && !request.complete;
    if (isUnread) response.setHeader('connection', 'close');
    response.writeHead(reply.status, Object.fromEntries(reply.header ?? []));
    for (; chunk !== undefined && chunk.done !== true; chunk = await body?.next()) {
      if (!response.write(chunk.value)) await waitForDrain(response, gone);
      if (gone.aborted) return;
    }
    if (reply.trailer !== undefined) response.addTrailers(Object.fromEntries(reply.trailer));
    if (isUnread) await discardRest(request);
    response.end();
  } finally {
    await body?.return?.();
  }
}

/**
 * How long a connection stays open while its caller is still sending a refused body. Closing it immediately would reset it, and the caller would not get the reply.
 */
const lingerMs = 2_000;

/** Reads and discards the rest of a body. Resolves at its end, when the caller disconnects, or after `lingerMs`. */
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

function waitForDrain(response: ServerResponse, gone: AbortSignal): Promise<void> {
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
