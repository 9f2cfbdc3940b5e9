import { createServer, connect, type Server, type Socket } from 'node:net';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

/** A proxy between a gateway and the database that drops answers (statements arrive, but the gateway does not learn their result), cuts connections and delays data. */
export class DroppingProxy {
  readonly url: string;
  readonly #server: Server;
  readonly #folder: string;
  readonly #target: string;
  readonly #sockets = new Set<Socket>();
  /** How many answers are still to be dropped. */
  #drops = 0;
  #delayMs = 0;
  #commitMs = 0;
  /** The pending writes to a socket. */
  readonly #waiting = new Map<Socket, Promise<void>>();

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

  /** Drops the answer to the next transaction that is committed. */
  dropNext(): void {
    this.#drops += 1;
  }

  /** Closes every connection at once. */
  cut(): void {
    for (const socket of this.#sockets) socket.destroy();
  }

  /** Delays all further data in both directions; 0 ends the delay. */
  delay(ms: number): void {
    this.#delayMs = ms;
  }

  /** Delays the next COMMIT of a batch, which arrives even if its sender has given up by then. */
  delayCommit(ms: number): void {
    this.#commitMs = ms;
  }

  async close(): Promise<void> {
    this.cut();
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
    let name: string | undefined;
    client.on('data', chunk => {
      const text = chunk.toString('latin1');
      // The name of the statement that the connection has prepared.
      name = /(s\d+)\0COMMIT\0/.exec(text)?.[1] ?? name;
      const commitMs = name !== undefined && text.includes(`\0${name}\0`) ? this.#commitMs : 0;
      if (commitMs > 0) this.#commitMs = 0;
      this.#pass(server, chunk, commitMs);
    });
    server.on('data', chunk => {
      // This is the tag of a committed transaction, whose answer is dropped.
      if (this.#drops > 0 && chunk.includes('COMMIT')) {
        this.#drops -= 1;
        isDropping = true;
        client.destroy();
        server.destroy();
      }
      if (!isDropping) this.#pass(client, chunk);
    });
    client.on('close', () => {
      this.#sockets.delete(client);
      // The end of the connection is passed on after all earlier data.
      void Promise.resolve(this.#waiting.get(server)).then(() => server.destroy());
    });
    server.on('close', () => {
      this.#sockets.delete(server);
      client.destroy();
    });
  }

  /** Forwards a chunk after the delay. Chunks keep their order even if the delay changes. */
  #pass(to: Socket, chunk: Buffer | string, moreMs = 0): void {
    const waiting = this.#waiting.get(to);
    const delayMs = this.#delayMs + moreMs;
    if (delayMs === 0 && waiting === undefined) {
      to.write(chunk);
      return;
    }
    const last = Promise.all([waiting, sleep(delayMs)]).then(() => {
      if (!to.destroyed) to.write(chunk);
      if (this.#waiting.get(to) === last) this.#waiting.delete(to);
    });
    this.#waiting.set(to, last);
  }
}

function readHost(url: string): string {
  return new URL(url.replace('postgres://postgres@/', 'postgres://postgres@socket/')).searchParams.get('host') ?? '';
}
