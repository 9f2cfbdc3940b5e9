/**
 * A receiver of Tollgate's webhooks: it verifies each signature, and recognises repeated events by their id. It prints one
 * JSON line for each new event. `WEBHOOK_SECRET` is the secret that `tollgate webhooks create` showed; `PORT` is the port to listen on (8090).
 */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import process from 'node:process';
import { Webhook } from 'standardwebhooks';

const webhook = new Webhook(process.env['WEBHOOK_SECRET'] ?? '');
/** A real receiver stores these ids in the same transaction as the changes that the events cause. */
const seen = new Set<string>();
const bytesMax = 1 << 20;

async function receive(request: IncomingMessage, response: ServerResponse): Promise<ServerResponse> {
  let body = '';
  for await (const chunk of request.setEncoding('utf8')) {
    body += chunk as string;
    if (body.length > bytesMax) return response.writeHead(413).end();
  }
  const headers = Object.fromEntries(
    ['webhook-id', 'webhook-timestamp', 'webhook-signature'].map(name => [name, String(request.headers[name] ?? '')]),
  );
  let event: unknown;
  try {
    // Throws if the signature is wrong or more than five minutes old.
    event = webhook.verify(body, headers);
  } catch {
    return response.writeHead(401).end();
  }
  const id = headers['webhook-id'] ?? '';
  if (!seen.has(id)) {
    seen.add(id);
    process.stdout.write(`${JSON.stringify({ id, ...(event as object) })}\n`);
  }
  // The gateway sends the event again unless it gets a 2xx within ten seconds.
  return response.writeHead(204).end();
}

const server = createServer((request, response) => {
  // If the sender disconnected, it sends the event again.
  receive(request, response).catch(() => response.destroy());
});

server.listen(Number(process.env['PORT'] ?? 8090), '127.0.0.1', () => {
  const address = server.address();
  process.stderr.write(`listening on ${typeof address === 'object' && address !== null ? address.port : ''}\n`);
});
