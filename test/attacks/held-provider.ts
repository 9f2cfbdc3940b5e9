import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';

/** The text by which a request says that its answer is to be withheld. */
const withheld = 'hold';

/** A provider that answers at once, except requests whose first bytes have the word `hold`: their answers wait until `release` is called. */
export class HeldProvider {
  readonly url: string;
  /** How many requests have arrived as a whole. */
  arrived = 0;
  readonly #server: Server;
  readonly #held: (() => void)[] = [];

  private constructor(server: Server) {
    this.#server = server;
    this.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`;
  }

  static async start(): Promise<HeldProvider> {
    const server = createServer((request, response) => {
      let begin = '';
      request.on('data', (piece: Buffer) => {
        if (begin.length < 4096) begin += piece.toString('latin1', 0, 4096);
      });
      request.on('end', () => {
        provider.arrived += 1;
        const answer = (): void => {
          const choices = [{ index: 0, message: { role: 'assistant', content: 'yes' }, finish_reason: 'stop' }];
          const usage = { prompt_tokens: 7, completion_tokens: 2, total_tokens: 9 };
          response.writeHead(200, { 'content-type': 'application/json' });
          response.end(JSON.stringify({ id: 'c', object: 'chat.completion', choices, usage }));
        };
        if (begin.includes(withheld)) provider.#held.push(answer);
        else answer();
      });
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const provider = new HeldProvider(server);
    return provider;
  }

  /** Disconnects all requests and ends. */
  end(): void {
    this.#server.closeAllConnections();
    this.#server.close();
  }

  /** Answers all requests whose answers wait. */
  release(): void {
    for (const answer of this.#held.splice(0)) answer();
  }
}
