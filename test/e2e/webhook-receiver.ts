/** A receiver of webhooks that verifies and records them, and misbehaves on request. */
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Webhook } from 'standardwebhooks';
import { expect } from 'vitest';

/** A delivery whose signature is valid. */
export interface Received {
  readonly id: string;
  readonly type: string;
  readonly timestamp: string;
  readonly data: Readonly<Record<string, unknown>>;
  readonly atMs: number;
}

/** What the receiver does with the next deliveries. */
export type Mood = 'well' | 'failing' | 'hanging' | 'redirecting' | 'closing';

export class WebhookReceiver {
  readonly received: Received[] = [];
  readonly refused: string[] = [];
  /** The number of delivery attempts, of any outcome. */
  attempts = 0;
  mood: Mood = 'well';
  secret = '';
  #server: Server | undefined;
  #port = 0;

  /** Starts listening, at the same port as before. */
  async open(): Promise<void> {
    const server = createServer((request, response) => {
      let body = '';
      request.setEncoding('utf8').on('data', (chunk: string) => (body += chunk));
      request.on('end', (): void => {
        this.attempts++;
        const headers = request.headers as Record<string, string>;
        try {
          const event = new Webhook(this.secret).verify(body, headers) as Omit<Received, 'id' | 'atMs'>;
          this.received.push({ id: headers['webhook-id'] ?? '', ...event, atMs: Date.now() });
        } catch (error) {
          this.refused.push(String(error));
        }
        if (this.mood === 'hanging') return;
        if (this.mood === 'closing') request.socket.destroy();
        else if (this.mood === 'redirecting') response.writeHead(307, { location: '/elsewhere' }).end();
        else response.writeHead(this.mood === 'well' ? 204 : 500).end();
      });
    });
    this.#server = server;
    await new Promise<void>(done => {
      server.listen(this.#port, '127.0.0.1', done);
    });
    this.#port = (server.address() as AddressInfo).port;
  }

  get url(): string {
    return `http://127.0.0.1:${this.#port}/hook?token=1`;
  }

  async close(): Promise<void> {
    const server = this.#server;
    await new Promise<void>(done => {
      server?.close(() => done());
      server?.closeAllConnections();
    });
  }

  /** Waits for events of these types, each counted once even if it came several times; fails with the events that came instead. */
  async expectTypes(types: readonly string[], timeout = 15_000): Promise<readonly Received[]> {
    const unique = (): Received[] => [...new Map(this.received.map(each => [each.id, each])).values()];
    await expect.poll(() => unique().map(({ type }) => type), { timeout, interval: 50 }).toEqual(types);
    expect(this.refused).toEqual([]);
    return unique();
  }
}
