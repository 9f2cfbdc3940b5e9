import type { Server } from 'node:http';
import type { Socket } from 'node:net';
import type { Runtime, Timer } from '../lib/runtime.ts';

/** The limits for connections whose clients do not read. */
export interface UnsentLimits {
  /** A connection that accepts no bytes for this long is cut. */
  readonly stallMs: number;
  /** The most unsent bytes of all connections together; above it, the connections that have stalled longest are cut. */
  readonly bytesMax: number;
}

/** While the heap is full, each check cuts this share of the stalled connections, but at least one. */
const cutShare = 0.25;
/** The longest interval between two checks of the connections. */
const checkMs = 500;

/** How many bytes a connection had sent when it was last seen to make progress. */
interface Progress {
  sentBytes: number;
  sinceMs: number;
}

/**
 * Cuts connections whose clients do not read: streams, whole answers and WebSockets alike. Their requests then end like those of clients
 * that have disconnected. Checking every connection twice a second costs less than a timer for each.
 */
export class StalledWrites {
  readonly #limits: () => UnsentLimits;
  readonly #isHeapFull: () => boolean;
  readonly #runtime: Runtime;
  readonly #timer: Timer;
  readonly #sockets = new Set<Socket>();
  readonly #stalled = new Map<Socket, Progress>();

  /** `isHeapFull` returns whether memory must be freed: answers that no client reads take much more memory than their unsent bytes. */
  constructor(server: Server, runtime: Runtime, limits: () => UnsentLimits, isHeapFull: () => boolean) {
    this.#limits = limits;
    this.#isHeapFull = isHeapFull;
    this.#runtime = runtime;
    server.on('connection', socket => {
      this.#sockets.add(socket);
      socket.once('close', () => {
        this.#sockets.delete(socket);
        this.#stalled.delete(socket);
      });
    });
    this.#timer = runtime.after(checkMs, () => this.#check());
  }

  /** Stops checking. */
  close(): void {
    this.#timer.cancel();
  }

  #check(): void {
    const { stallMs, bytesMax } = this.#limits();
    const nowMs = this.#runtime.monotonicMs();
    let unsentBytes = 0;
    for (const socket of this.#sockets) {
      unsentBytes += socket.writableLength;
      if (this.#stalledMs(socket, nowMs) >= stallMs) socket.destroy();
    }
    if (unsentBytes > bytesMax) this.#cutOldest(unsentBytes - bytesMax);
    else if (this.#isHeapFull()) this.#cutShare();
    this.#timer.restart(Math.min(checkMs, stallMs / 4));
  }

  /** Returns how long a connection has accepted none of its waiting bytes; 0 if none wait. */
  #stalledMs(socket: Socket, nowMs: number): number {
    if (socket.writableLength === 0) {
      this.#stalled.delete(socket);
      return 0;
    }
    const sentBytes = socket.bytesWritten - socket.writableLength;
    const progress = this.#stalled.get(socket);
    if (progress?.sentBytes === sentBytes) return nowMs - progress.sinceMs;
    // Reinserted at the end, because the map is in the order in which connections stalled.
    this.#stalled.delete(socket);
    this.#stalled.set(socket, { sentBytes, sinceMs: nowMs });
    return 0;
  }

  #cutOldest(bytes: number): void {
    let cut = 0;
    for (const socket of this.#stalled.keys()) {
      if (cut >= bytes) return;
      cut += socket.writableLength;
      socket.destroy();
    }
  }

  #cutShare(): void {
    const count = Math.ceil(this.#stalled.size * cutShare);
    for (const socket of [...this.#stalled.keys()].slice(0, count)) socket.destroy();
  }
}
