import { MessageChannel, type MessagePort } from 'node:worker_threads';
import { overloaded } from '../../errors/overloaded.ts';
import { admissionsMax, FairBatches } from '../../ledger/fair-batches.ts';
import { waitsForSync, type WireCommand, type WireReply } from '../../ledger/sqlite/wire.ts';
import { admitsMin, unwritable } from '../../ledger/sqlite/writer.ts';
import { systemClock } from '../../lib/clock.ts';
import { type Call, CallQueue } from '../../lib/threads/call-queue.ts';
import type { Replies } from '../../lib/threads/serve-calls.ts';
import type { HeldIds } from './held-ids.ts';
import type { LedgerLane } from './ledger-lane.ts';

/** After this time a worker that has lost the ledger's thread tries to reach it again. */
const reconnectMs = 1_000;
/** The most commands in a message: messages of several workers are committed together, and those of other workers should not wait for more. */
const messageMax = 256;
/** The interval at which settles that have waited too long are searched for. */
const impatienceMs = 500;

interface Sent extends Call<WireCommand> {
  /** True for a settle that is refused if it has waited too long. */
  readonly isBounded: boolean;
  /** When the command was sent, by the monotonic clock. */
  readonly sentAtMs: number;
}

/** The dependencies of a worker's `LedgerLink`. */
export interface LinkTools {
  /** The way through the main thread. */
  readonly lane: Pick<LedgerLane, 'send'>;
  /** Gives the main thread a port, which it passes on to the ledger's thread, or closes if that is not possible now. */
  readonly offer: (port: MessagePort) => void;
  readonly held: HeldIds;
  /** How long a bounded settle waits for storage. */
  readonly settleMs: number;
  /** Called for every committed batch, for metrics, with the time that it took and the number of commands that waited meanwhile; and with `undefined` and 0 when no command is sent directly any more. */
  readonly observe: (commitMs: number | undefined, waiting: number) => void;
}

/**
 * Sends a worker's ledger commands: directly to the ledger's thread as long as that executes them. If it has died or storage has failed, they are sent through the main thread,
 * whose `Writer` knows what to refuse and what to repeat. Commands that the ledger's thread may have executed are sent again, too: it recognises those that were done.
 */
export class LedgerLink {
  readonly #tools: LinkTools;
  readonly #batches = new FairBatches<Sent>(admitsMin, () => performance.now());
  readonly #calls = new CallQueue<Sent, WireReply>(() => this.#port, {
    onReply: (call, reply) => this.#onReply(call, reply),
    takeBatch: (waiting, max) => this.#batches.take(waiting, Math.min(max, messageMax)),
    repliesLater: ({ request }) => waitsForSync(request),
    onBatch: ({ tookMs, waiting }) => {
      if (tookMs !== undefined) this.#tools.observe(tookMs, waiting);
    },
  });
  /** Undefined while commands are sent through the main thread. */
  #port: MessagePort | undefined;
  readonly #impatience: NodeJS.Timeout;
  #isClosed = false;

  constructor(tools: LinkTools) {
    this.#tools = tools;
    this.#impatience = setInterval(() => this.#giveUp(), impatienceMs).unref();
    this.#connect();
  }

  /** Sends a command; resolves with its decoded reply. See `Writer.send`. */
  send<R>(command: WireCommand, decode: (value: unknown) => R, isBounded = false): Promise<R> {
    return new Promise((resolve, reject) => {
      const settle = (value: unknown): void => resolve(decode(value));
      const sentAtMs = isBounded ? performance.now() : 0;
      const call: Sent = { request: command, resolve: settle, reject, isBounded, sentAtMs };
      if (command[0] === 'admit' && this.#calls.waiting >= admissionsMax)
        reject(overloaded('Too many requests are waiting.'));
      else this.#send(call);
    });
  }

  #send(call: Sent): void {
    const { request } = call;
    // A hold of the gateway's own has no expiry.
    if (request[0] === 'admit' && request[9] === null) this.#tools.held.add(request[2]);
    if (this.#port === undefined) this.#relay(call);
    else this.#calls.post(call);
  }

  /** Sends what still waits, and closes the port. */
  close(): void {
    this.#isClosed = true;
    clearInterval(this.#impatience);
    this.#calls.sendAll();
    this.#port?.close();
    this.#port = undefined;
  }

  #connect(): void {
    if (this.#isClosed) return;
    const { port1, port2 } = new MessageChannel();
    port1.on('message', ([kind, replies]: Replies<WireReply>) => {
      // Notices are posted to the main thread.
      if (this.#port === port1 && kind !== 'notice') this.#calls.take(kind, replies);
    });
    port1.on('close', () => this.#disconnect(port1));
    this.#port = port1;
    this.#tools.offer(port2);
  }

  #disconnect(port: MessagePort): void {
    if (this.#port !== port) return;
    this.#port = undefined;
    port.close();
    for (const call of this.#calls.takeUnanswered()) this.#relayAgain(call);
    this.#tools.observe(undefined, 0);
    setTimeout(() => this.#connect(), reconnectMs).unref();
  }

  #onReply(call: Sent, reply: WireReply): void {
    if (reply[0] === 'done') return this.#done(call, reply[1]);
    if (reply[0] === 'storage' && this.#port !== undefined) this.#disconnect(this.#port);
    // The main thread describes the failure.
    this.#relayAgain(call);
  }

  #relay({ request, resolve, reject, isBounded }: Sent): void {
    this.#tools.lane
      .send(request, value => value, isBounded)
      .then(
        value => this.#done({ request, resolve }, value),
        (error: unknown) => {
          // A refused settle or void has not released the hold.
          if (request[0] === 'admit') this.#tools.held.delete(request[2]);
          reject(error);
        },
      );
  }

  /** Sends a command through the main thread that the ledger's thread may have executed. */
  #relayAgain(call: Sent): void {
    const { request, reject, isBounded, sentAtMs } = call;
    if (isBounded) {
      const restMs = sentAtMs + this.#tools.settleMs - performance.now();
      setTimeout(() => reject(unwritable()), restMs).unref();
    }
    if (request[0] !== 'admit') return this.#relay(call);
    this.#relay({
      ...call,
      reject: error => {
        this.#release(request[2]);
        reject(error);
      },
    });
  }

  /** Voids the hold of a refused admission, which may be stored. */
  #release(id: number): void {
    this.#tools.held.add(id);
    const request: WireCommand = ['void', systemClock.now(), id, 'gateway_failure'];
    this.#relay({ request, resolve: () => undefined, reject: () => undefined, isBounded: false, sentAtMs: 0 });
  }

  #done({ request, resolve }: Pick<Sent, 'request' | 'resolve'>, value: unknown): void {
    // Only the reply to an admission that was not denied is an array.
    const isHeld = request[0] === 'admit' && Array.isArray(value);
    if (!isHeld) this.#tools.held.delete(findRequestId(request));
    resolve(value);
  }

  /** Refuses bounded settles that have waited too long. The ledger's thread may execute them nevertheless; a repeat then gets their reply. */
  #giveUp(): void {
    const beforeMs = performance.now() - this.#tools.settleMs;
    for (const { isBounded, sentAtMs, reject } of this.#calls.unanswered())
      if (isBounded && sentAtMs < beforeMs) reject(unwritable());
  }
}

/** Returns the id of the request that a command admits or ends; 0: of none. */
function findRequestId(command: WireCommand): number {
  return command[0] === 'admit' || command[0] === 'settle' || command[0] === 'void' ? command[2] : 0;
}
