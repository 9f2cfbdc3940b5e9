import type { IncomingHttpHeaders } from 'node:http';
import type { Attribution } from '../../gen/tollgate/v1/request_pb.ts';
import type { WebSocket } from 'ws';
import { GatewayError } from '../../errors/gateway-error.ts';
import { randomBase62 } from '../../lib/ids.ts';
import type { Timer } from '../../lib/runtime.ts';
import { type SocketMessage, WebSocketReader } from '../../lib/websocket-reader.ts';
import type { Call } from '../call.ts';
import type { Edge } from '../edge.ts';
import { errorEvent, SocketTurn } from '../sinks/socket.ts';

/** Maximum lifetime of a connection. Source: docs/interfaces/responses.md "WebSocket". */
const lifetimeMs = 60 * 60_000;
/** The most turns that may wait, and the most bytes of them together. */
const waitingMax = 32;
const waitingBytesMax = 64 * 1024 ** 2;
/** A connection is closed after this many refused messages in a row. */
const refusedMax = 64;
/** The number of unsent bytes above which a slow client must catch up before it is sent more. */
const unsentBytesMax = 256 * 1024;
/** How long a ping may stay unanswered. */
const pongMs = 30_000;
/** The close codes of RFC 6455: the endpoint goes away; the message breaks a rule; the server is overloaded. */
const closeCodes = { goingAway: 1001, policy: 1008, tryLater: 1013 } as const;

/** Up to this many bytes, the messages of a connection need no reservation from the memory that all large bodies share. */
const uncountedBytes = 1024 ** 2;

/** The options with which a connection is opened. */
export interface SocketParts {
  readonly edge: Edge;
  readonly call: Call;
  readonly key: string;
  readonly strict: boolean;
  /** The headers of the request that opened the connection, for the trace of the turns. */
  readonly headers: IncomingHttpHeaders;
  /** The tags and end user of all turns, from the headers of the connection. */
  readonly attribution: Attribution | undefined;
}

/** One WebSocket of the Responses interface. Its turns run one after the other; its unstored responses live as long as the connection. */
export class ResponsesSocket {
  readonly edge: Edge;
  /** The call that opened the connection, with its credential. */
  readonly opened: Call;
  readonly key: string;
  readonly strict: boolean;
  /** The headers of the request that opened the connection; every turn belongs to the trace that they name. */
  readonly headers: IncomingHttpHeaders;
  readonly attribution: Attribution | undefined;
  /** The session in which the connection's unstored responses are kept. */
  readonly session: string = randomBase62(43);
  readonly #socket: WebSocket;
  readonly #openedAtMs: number;
  readonly #limit: Timer;
  readonly #pings: Timer;
  readonly #waiting: SocketMessage[] = [];
  #waitingBytes = 0;
  /** How many messages were refused since one was accepted. */
  #refused = 0;
  readonly #reader: WebSocketReader;
  /** The size of the message that is being answered. */
  #turnBytes = 0;
  /** The bytes reserved from the memory that all large bodies share. */
  #takenBytes = 0;
  #turn: SocketTurn | undefined;
  /** How many messages wait because the client reads too slowly. */
  #unsent = 0;
  /** Callbacks for when all of them have been sent. */
  #whenSent: (() => void)[] = [];
  /** When the unanswered ping was sent, by the monotonic clock; undefined if none is unanswered. */
  #pingedAt: number | undefined;
  /** True once no more turns are accepted. */
  #isOver = false;
  #isGone = false;

  /** `control` passes the bytes of ping, pong and close frames to the library, which answers them. */
  constructor(
    socket: WebSocket,
    { edge, call, key, strict, headers, attribution }: SocketParts,
    control: (bytes: Buffer) => void,
  ) {
    this.edge = edge;
    this.opened = call;
    this.key = key;
    this.strict = strict;
    this.headers = headers;
    this.attribution = attribution;
    this.#socket = socket;
    const { runtime, keepAliveMs } = edge.options;
    this.#openedAtMs = runtime.now();
    this.#limit = runtime.after(lifetimeMs, () => this.#endOfLife());
    this.#pings = runtime.after(keepAliveMs, () => {
      this.#pings.restart(keepAliveMs);
      this.#ping();
    });
    this.#reader = new WebSocketReader(edge.options.bodyBytesMax, {
      message: message => this.#take(message),
      control,
      failed: (code, reason) => socket.close(code, reason),
    });
    socket.on('pong', () => {
      this.#pingedAt = undefined;
    });
    // After an invalid frame or a reset the library closes the connection, which is handled below.
    socket.on('error', () => undefined);
    socket.on('close', () => this.#closed());
  }

  /** The bytes reserved for the messages of the connection: the one that is answered, and those that wait or arrive. */
  get taken(): number {
    return this.#takenBytes;
  }

  /** True if the connection has ended. */
  get isGone(): boolean {
    return this.#isGone;
  }

  /** Sends one message. Returns false if the client must catch up before the next. */
  send(message: string): boolean {
    if (this.#socket.readyState !== this.#socket.OPEN) return true;
    if (this.#socket.bufferedAmount < unsentBytesMax) {
      this.#socket.send(message);
      return true;
    }
    this.#unsent += 1;
    // The callback runs when the message has been sent, or when the connection has ended.
    this.#socket.send(message, () => this.#sent());
    return false;
  }

  /** Runs `next` once the client has caught up; at once if it has. */
  whenSent(next: () => void): void {
    if (this.#unsent === 0) next();
    else this.#whenSent.push(next);
  }

  /** Reads bytes from the client. */
  received(bytes: Buffer): void {
    this.#reader.push(bytes);
    if (this.#reserve()) return;
    this.#reader.end();
    this.#socket.close(closeCodes.tryLater, 'Too many large requests are being answered.');
  }

  /** Ends the connection because the gateway stops: at once, or after the running turn. */
  end(): void {
    this.#isOver = true;
    if (this.#turn === undefined) this.#socket.close(closeCodes.goingAway, 'The gateway is stopping.');
  }

  /** Ends the connection without a message. */
  terminate(): void {
    this.#socket.terminate();
  }

  #take(message: SocketMessage): void {
    if (this.#isOver || this.#socket.readyState !== this.#socket.OPEN) return;
    if (this.edge.options.runtime.now() - this.#openedAtMs >= lifetimeMs) return this.#endOfLife();
    if (message.isBinary) return this.#refuse('Send text messages.');
    if (this.#waiting.length >= waitingMax || this.#waitingBytes + message.size > waitingBytesMax) {
      return this.#refuse('Too many turns wait: send the next one after one has ended.');
    }
    this.#refused = 0;
    this.#waiting.push(message);
    this.#waitingBytes += message.size;
    if (this.#turn === undefined) this.#answerNext();
  }

  #answerNext(): void {
    const next = this.#waiting.shift();
    if (next === undefined) return;
    this.#waitingBytes -= next.size;
    this.#turnBytes = next.size;
    this.#turn = new SocketTurn(this, () => {
      this.#turn = undefined;
      this.#turnBytes = 0;
      this.#reserve();
      if (this.#isOver) this.#socket.close(closeCodes.goingAway);
      else this.#answerNext();
    });
    this.#turn.begin(next);
  }

  /** Adjusts the reserved memory to the messages that have arrived or are arriving. Returns false if there is not enough. */
  #reserve(): boolean {
    const bytes = this.#reader.arrivingBytes + this.#waitingBytes + this.#turnBytes;
    const needed = this.#isGone || bytes <= uncountedBytes ? 0 : bytes;
    const { memory } = this.edge.options;
    const owner = this.opened.credential?.accountId ?? 0n;
    if (needed > this.#takenBytes && memory.take(owner, needed - this.#takenBytes) !== 'taken') return false;
    if (needed < this.#takenBytes) memory.give(owner, this.#takenBytes - needed);
    this.#takenBytes = needed;
    return true;
  }

  #sent(): void {
    this.#unsent -= 1;
    if (this.#unsent === 0) for (const next of this.#whenSent.splice(0)) next();
  }

  #refuse(text: string): void {
    this.#refused += 1;
    // Each refusal takes time from everyone else, and a client that ignores so many of them ignores the next ones too.
    if (this.#refused > refusedMax) {
      this.#isOver = true;
      this.#reader.end();
      return this.#socket.close(closeCodes.policy, text);
    }
    // A client that breaks the rules and does not read must not make unsent errors pile up.
    if (this.#socket.bufferedAmount >= unsentBytesMax) return this.terminate();
    this.send(errorEvent(this.edge, new GatewayError('invalid_request', text), this.opened.id));
  }

  /** Ends the connection after its maximum lifetime; a running turn ends first. */
  #endOfLife(): void {
    const text = 'A connection is closed after 60 minutes: open another one to continue.';
    this.send(errorEvent(this.edge, new GatewayError('websocket_connection_limit_reached', text), this.opened.id));
    this.#isOver = true;
    if (this.#turn === undefined) this.#socket.close(closeCodes.policy, 'websocket_connection_limit_reached');
  }

  #ping(): void {
    // A client that has not read everything yet can't answer a ping; the timeouts of the turn end such a connection.
    if (this.#socket.bufferedAmount > 0) return;
    const nowMs = this.edge.options.runtime.monotonicMs();
    if (this.#pingedAt === undefined) {
      this.#pingedAt = nowMs;
      this.#socket.ping();
    } else if (nowMs - this.#pingedAt > pongMs) {
      this.#socket.terminate();
    }
  }

  #closed(): void {
    this.#limit.cancel();
    this.#pings.cancel();
    this.#isOver = true;
    this.#isGone = true;
    this.#waiting.length = 0;
    this.#reserve();
    this.#turn?.cancel();
    const ended = this.edge.responses.endSession({ session: this.session }, { headers: this.opened });
    // With a key that was revoked in the meantime this fails; the core then drops the session after a while.
    ended.catch(() => undefined);
  }
}
