import type { MessagePort } from 'node:worker_threads';
import type { WireCommand } from '../../ledger/sqlite/wire.ts';

/** A worker's message: the commands of a turn of its event loop, the slot of each, and the slots of settles that must not wait for storage. A slot is a small number that is used again after the reply. */
export type SentCommands = [slots: number[], commands: WireCommand[], bounded: number[]];
/** A port that the worker offers to the ledger's thread. */
export type SentPort = [port: MessagePort];
/** The main thread's reply: slots and their replies, and the slots of commands that failed with their errors (`writeError`). */
export type SentReplies = [slots: number[], replies: unknown[], failed: [slot: number, error: unknown][]];

/** The port to the main thread. */
interface Port {
  postMessage(value: SentCommands): void;
  on(event: 'message', listener: (value: unknown) => void): unknown;
}

interface OpenCommand {
  readonly decode: (value: unknown) => unknown;
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * Sends a worker's ledger commands to the main thread's `LedgerRelay`, all of a turn of the event loop in one message. It shares the port with `CallPort`, whose messages are objects; these are arrays. It does the same as `CallPort`, at less cost for
 * each command, because every answer needs two of them.
 */
export class LedgerLane {
  readonly #port: Port;
  readonly #readError: (written: unknown) => Error;
  /** The open commands by slot; undefined: the slot is free. */
  readonly #open: (OpenCommand | undefined)[] = [];
  readonly #free: number[] = [];
  #outbox: SentCommands = [[], [], []];

  constructor(port: Port, readError: (written: unknown) => Error) {
    this.#port = port;
    this.#readError = readError;
    port.on('message', message => {
      // The cast holds, because only the relay posts arrays.
      if (Array.isArray(message)) this.#take(message as SentReplies);
    });
  }

  /** Sends a command; resolves with its decoded reply. See `Writer.send`. */
  send<R>(command: WireCommand, decode: (value: unknown) => R, isBounded = false): Promise<R> {
    return new Promise((resolve, reject) => {
      const slot = this.#free.pop() ?? this.#open.length;
      // The cast holds, because `resolve` is only called with what `decode` returns.
      this.#open[slot] = { decode, resolve: resolve as OpenCommand['resolve'], reject };
      const [slots, commands, bounded] = this.#outbox;
      commands.push(command);
      if (isBounded) bounded.push(slot);
      if (slots.push(slot) === 1) setImmediate(() => this.#flush());
    });
  }

  #flush(): void {
    const sent = this.#outbox;
    this.#outbox = [[], [], []];
    this.#port.postMessage(sent);
  }

  #take([slots, replies, failed]: SentReplies): void {
    for (const [index, slot] of slots.entries()) {
      const command = this.#close(slot);
      command?.resolve(command.decode(replies[index]));
    }
    for (const [slot, error] of failed) this.#close(slot)?.reject(this.#readError(error));
  }

  #close(slot: number): OpenCommand | undefined {
    const command = this.#open[slot];
    this.#open[slot] = undefined;
    this.#free.push(slot);
    return command;
  }
}
