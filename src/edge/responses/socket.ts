import type { WebSocket } from 'ws';
import { GatewayError } from '../../errors/gateway-error.ts';
import { randomBase62 } from '../../lib/ids.ts';
import type { Call } from '../call.ts';
import type { Edge } from '../edge.ts';
import { answerTurn, errorEvent, type TurnConnection } from './socket-turn.ts';

/** How long a connection may live. Source: decisions §4, "WebSocket". */
const lifetimeMs = 60 * 60_000;
/** Turns that wait for the one that runs, and what they may take together. */
const waitingMax = 32;
const waitingBytesMax = 64 * 1024 ** 2;
/** What may be under way to a client that reads slowly before it has to catch up. */
const sentBytesMax = 256 * 1024;
/** How long a ping may stay unanswered. */
const pongMs = 30_000;
/** The close codes of RFC 6455: the endpoint goes away; the message breaks a rule; the server failed. */
const closeCodes = { goingAway: 1001, policy: 1008 } as const;

/** What a connection is opened with. */
export interface SocketParts {
  readonly edge: Edge;
  readonly call: Call;
  readonly key: string;
  readonly strict: boolean;
}

/** One WebSocket of the Responses interface: turns, one after the other, and the responses that live as long as it. */
export class ResponsesSocket implements TurnConnection {
  readonly edge: Edge;
  readonly opened: Call;
  readonly key: string;
  readonly strict: boolean;
  readonly session: string = randomBase62(43);
  readonly #socket: WebSocket;
  readonly #abort = new AbortController();
  readonly #openedAtMs: number;
  readonly #limit: NodeJS.Timeout;
  readonly #pings: NodeJS.Timeout;
  readonly #waiting: Buffer[] = [];
  #waitingBytes = 0;
  #isAnswering = false;
  /** When the ping was sent that has yet to be answered (`performance.now()`). */
  #pingedAt: number | undefined;
  /** Nothing more is answered. */
  #isOver = false;

  constructor(socket: WebSocket, { edge, call, key, strict }: SocketParts) {
    this.edge = edge;
    this.opened = call;
    this.key = key;
    this.strict = strict;
    this.#socket = socket;
    this.#openedAtMs = edge.options.clock.now();
    this.#limit = setTimeout(() => this.#endOfLife(), lifetimeMs);
    this.#pings = setInterval(() => this.#ping(), edge.options.keepAliveMs);
    socket.on('message', (data, isBinary) =>
      this.#take(Array.isArray(data) ? Buffer.concat(data) : Buffer.from(data as Buffer), isBinary),
    );
    socket.on('pong', () => {
      this.#pingedAt = undefined;
    });
    // A broken frame, or a connection that was reset: the library closes it, which is told below.
    socket.on('error', () => undefined);
    socket.on('close', () => this.#closed());
  }

  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  send = (message: string): Promise<void> | undefined => {
    if (this.#socket.readyState !== this.#socket.OPEN) return undefined;
    if (this.#socket.bufferedAmount < sentBytesMax) {
      this.#socket.send(message);
      return undefined;
    }
    return new Promise(resolve => {
      // Called when it has left, or when the connection has ended.
      this.#socket.send(message, () => resolve());
    });
  };

  /** The gateway stops: ends the connection now, or when its turn has ended. */
  end(): void {
    this.#isOver = true;
    if (!this.#isAnswering) this.#socket.close(closeCodes.goingAway, 'The gateway is stopping.');
  }

  /** Ends the connection without another word. */
  terminate(): void {
    this.#socket.terminate();
  }

  #take(message: Buffer, isBinary: boolean): void {
    if (this.#isOver) return;
    if (this.edge.options.clock.now() - this.#openedAtMs >= lifetimeMs) return this.#endOfLife();
    if (isBinary) return this.#refuse('Send text messages.');
    if (this.#waiting.length >= waitingMax || this.#waitingBytes + message.length > waitingBytesMax) {
      return this.#refuse('Too many turns wait: send the next one when one has ended.');
    }
    this.#waiting.push(message);
    this.#waitingBytes += message.length;
    if (!this.#isAnswering) void this.#answerAll();
  }

  async #answerAll(): Promise<void> {
    this.#isAnswering = true;
    for (let next = this.#waiting.shift(); next !== undefined && !this.#isOver; next = this.#waiting.shift()) {
      this.#waitingBytes -= next.length;
      await answerTurn(this, next);
    }
    this.#isAnswering = false;
    if (this.#isOver) this.#socket.close(closeCodes.goingAway);
  }

  #refuse(text: string): void {
    // Who breaks the rules and does not even read that is not told for ever.
    if (this.#socket.bufferedAmount >= sentBytesMax) return this.terminate();
    void this.send(errorEvent(this.edge, new GatewayError('invalid_request', text), this.opened.id));
  }

  /** A turn that runs may end; the next one needs another connection. */
  #endOfLife(): void {
    const text = 'A connection lives for 60 minutes: open another one and go on there.';
    void this.send(errorEvent(this.edge, new GatewayError('websocket_connection_limit_reached', text), this.opened.id));
    this.#isOver = true;
    if (!this.#isAnswering) this.#socket.close(closeCodes.policy, 'websocket_connection_limit_reached');
  }

  #ping(): void {
    // A client that has yet to read what was sent can't answer; the deadlines of the turn end it.
    if (this.#socket.bufferedAmount > 0) return;
    if (this.#pingedAt === undefined) {
      this.#pingedAt = performance.now();
      this.#socket.ping();
    } else if (performance.now() - this.#pingedAt > pongMs) {
      this.#socket.terminate();
    }
  }

  #closed(): void {
    clearTimeout(this.#limit);
    clearInterval(this.#pings);
    this.#isOver = true;
    this.#waiting.length = 0;
    this.#abort.abort(new Error('the connection has ended'));
    const ended = this.edge.responses.endSession({ session: this.session }, { headers: this.opened.rpcHeaders() });
    // A key that was revoked meanwhile can't say so: the core forgets the session by itself.
    ended.catch(() => undefined);
  }
}
