import { connect, type Socket } from 'node:net';

/** An answer, with times by `performance.now()`. */
export interface Arrival {
  readonly status: number;
  /** When the first byte of the body arrived; for a stream, the first event. */
  readonly firstAt: number;
  readonly endAt: number;
}

const crlf2 = Buffer.from('\r\n\r\n');
const lastChunk = Buffer.from('0\r\n\r\n');

/**
 * A keep-alive connection of the load generator, for one request at a time. Requests are sent as prepared bytes, and answers are read only as far as needed to know when they end, because a real
 * client would cost more than what is measured.
 */
export class Connection {
  readonly #socket: Socket;
  #onEnd: ((arrival: Arrival) => void) | undefined;
  #onBroken: (reason: Error) => void;
  #status = 0;
  /** How many bytes of the body are still to come; Infinity if the body is chunked; undefined before the head. */
  #missing: number | undefined;
  #firstAt = 0;
  #tail: Buffer = Buffer.alloc(0);

  private constructor(socket: Socket, onBroken: (reason: Error) => void) {
    this.#socket = socket;
    this.#onBroken = onBroken;
    socket.on('data', (piece: Buffer) => this.#take(piece));
    socket.on('error', error => this.#onBroken(error));
    socket.on('close', () => this.#onBroken(new Error('the connection was closed')));
  }

  /** Opens a connection. `onBroken` is called if it ends other than by `close`. */
  static open(port: number, onBroken: (reason: Error) => void): Promise<Connection> {
    return new Promise((resolve, reject) => {
      const socket = connect({ port, host: '127.0.0.1', noDelay: true });
      socket.once('error', reject);
      socket.once('connect', () => {
        socket.off('error', reject);
        resolve(new Connection(socket, onBroken));
      });
    });
  }

  /** Sends a request; `onEnd` is called when its answer has ended. */
  send(request: Buffer, onEnd: (arrival: Arrival) => void): void {
    this.#onEnd = onEnd;
    this.#missing = undefined;
    this.#firstAt = 0;
    this.#tail = Buffer.alloc(0);
    this.#socket.write(request);
  }

  /** Stops reading from the socket. */
  pause(): void {
    this.#socket.pause();
  }

  close(): void {
    this.#onBroken = () => undefined;
    this.#socket.destroy();
  }

  #take(piece: Buffer): void {
    let body = piece;
    if (this.#missing === undefined) {
      const whole = this.#tail.length === 0 ? piece : Buffer.concat([this.#tail, piece]);
      const bodyAt = whole.indexOf(crlf2);
      this.#tail = whole;
      if (bodyAt === -1) return;
      const head = whole.toString('latin1', 0, bodyAt);
      this.#status = Number(head.slice(9, 12));
      const length = /content-length: *(\d+)/i.exec(head)?.[1];
      this.#missing = length === undefined ? Infinity : Number(length);
      body = whole.subarray(bodyAt + crlf2.length);
      this.#tail = Buffer.alloc(0);
    }
    if (body.length > 0 && this.#firstAt === 0) this.#firstAt = performance.now();
    if (this.#missing === Infinity) this.#chunked(body);
    else this.#counted(body);
  }

  #chunked(body: Buffer): void {
    const known = this.#tail.length === 0 ? body : Buffer.concat([this.#tail, body]);
    this.#tail = known.subarray(-lastChunk.length);
    if (this.#tail.equals(lastChunk)) this.#ended();
  }

  #counted(body: Buffer): void {
    this.#missing = (this.#missing ?? 0) - body.length;
    if (this.#missing <= 0) this.#ended();
  }

  #ended(): void {
    const onEnd = this.#onEnd;
    this.#onEnd = undefined;
    onEnd?.({ status: this.#status, firstAt: this.#firstAt, endAt: performance.now() });
  }
}

/** Returns the bytes of an HTTP request to Chat Completions. `headers`: further lines, each with CRLF at its end. */
export function chatRequest(body: object, headers = ''): Buffer {
  const text = JSON.stringify(body);
  return Buffer.from(
    `POST /v1/chat/completions HTTP/1.1\r\nhost: bench\r\n${headers}content-type: application/json\r\ncontent-length: ${Buffer.byteLength(text)}\r\n\r\n${text}`,
  );
}
