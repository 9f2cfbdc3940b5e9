import { createServer, connect, type Server, type Socket } from 'node:net';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** A proxy between a gateway and the database that drops answers: statements arrive, but the gateway does not learn their result. */
export class DroppingProxy {
  readonly url: string;
  readonly #server: Server;
  readonly #folder: string;
  readonly #target: string;
  readonly #sockets = new Set<Socket>();
  /** How many answers are still to be lost. */
  #drops = 0;

  private constructor(url: string, server: Server, folder: string, target: string) {
    this.url = url;
    this.#server = server;
    this.#folder = folder;
    this.#target = target;
    server.on('connection', client => this.#join(client));
  }

  static async open(url: string): Promise<DroppingProxy> {
    const folder = mkdtempSync(join(tmpdir(), 'tollgate-proxy-'));
    const server = createServer();
    server.listen(join(folder, '.s.PGSQL.5432'));
    await once(server, 'listening');
    const target = readHost(url);
    return new DroppingProxy(
      url.replace(encodeURIComponent(target), encodeURIComponent(folder)),
      server,
      folder,
      target,
    );
  }

  /** Loses the answer to the next transaction that is committed. */
  dropNext(): void {
    this.#drops += 1;
  }

  async close(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    this.#server.close();
    await once(this.#server, 'close');
    rmSync(this.#folder, { recursive: true, force: true });
  }

  #join(client: Socket): void {
    const server = connect(join(this.#target, '.s.PGSQL.5432'));
    let isDropping = false;
    for (const socket of [client, server]) {
      this.#sockets.add(socket);
      socket.on('error', () => undefined);
    }
    client.on('data', chunk => server.write(chunk));
    server.on('data', chunk => {
      // The tag of a transaction that was committed: it is done, and its answer goes no further.
      if (this.#drops > 0 && chunk.includes('COMMIT')) {
        this.#drops -= 1;
        isDropping = true;
        client.destroy();
        server.destroy();
      }
      if (!isDropping) client.write(chunk);
    });
    client.on('close', () => server.destroy());
    server.on('close', () => client.destroy());
  }
}

function readHost(url: string): string {
  return new URL(url.replace('postgres://postgres@/', 'postgres://postgres@socket/')).searchParams.get('host') ?? '';
}
