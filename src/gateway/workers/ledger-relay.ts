import type { SqliteLedger } from '../../ledger/sqlite/sqlite-ledger.ts';
import type { WireCommand } from '../../ledger/sqlite/wire.ts';
import { systemClock } from '../../lib/clock.ts';
import { toDense } from '../../lib/threads/dense.ts';
import { writeError } from '../../rpc/port-errors.ts';
import { HeldIds } from './held-ids.ts';
import type { SentCommands, SentReplies } from './ledger-lane.ts';

/** Executes the ledger commands of a worker's `LedgerLane` on the main thread, and voids the worker's holds when it ends. */
export class LedgerRelay {
  readonly #post: (replies: SentReplies) => void;
  readonly #ledger: Pick<SqliteLedger, 'relay'>;
  readonly #held: SharedArrayBuffer;
  #outbox: SentReplies = [[], [], []];
  #willFlush = false;
  #isGone = false;

  /** `post` sends a message to the worker. `held`: the memory of its `HeldIds`. */
  constructor(post: (replies: SentReplies) => void, ledger: Pick<SqliteLedger, 'relay'>, held: SharedArrayBuffer) {
    this.#post = post;
    this.#ledger = ledger;
    this.#held = held;
  }

  /** Executes the commands of one message. */
  take([slots, commands, bounded]: SentCommands): void {
    for (const [index, command] of commands.entries()) {
      const slot = slots[index] ?? 0;
      this.#send(slot, toDense(command) as WireCommand, bounded.includes(slot));
    }
  }

  /** Called when the worker has ended. Commands that it had sent are still executed. */
  end(): void {
    this.#isGone = true;
    for (const id of HeldIds.list(this.#held)) this.#void(id);
  }

  #send(slot: number, command: WireCommand, isBounded: boolean): void {
    // A settle that was refused because it had waited for too long can be done nevertheless. Its slot may have another command by then.
    let isAnswered = false;
    this.#ledger.relay(command, isBounded, {
      resolve: reply => {
        if (this.#isGone && isHold(command, reply)) this.#void(command[2]);
        if (isAnswered) return;
        isAnswered = true;
        this.#outbox[0].push(slot);
        this.#outbox[1].push(toDense(reply));
        this.#flushSoon();
      },
      reject: thrown => {
        if (isAnswered) return;
        isAnswered = true;
        this.#outbox[2].push([slot, writeError(thrown)]);
        this.#flushSoon();
      },
    });
  }

  #flushSoon(): void {
    if (this.#willFlush) return;
    this.#willFlush = true;
    setImmediate(() => {
      this.#willFlush = false;
      const replies = this.#outbox;
      this.#outbox = [[], [], []];
      if (!this.#isGone) this.#post(replies);
    });
  }

  /** Voids the hold of an ended worker's request, unless it was settled. */
  #void(id: number): void {
    // Errors are ignored, because the writer repeats what can't be stored now.
    this.#ledger.relay(['void', systemClock.now(), id, 'restarted'], false, {
      resolve: () => undefined,
      reject: () => undefined,
    });
  }
}

/** Returns whether a command has made a hold that ends with this process. */
function isHold(command: WireCommand, reply: unknown): command is WireCommand & { readonly 0: 'admit' } {
  // Only the reply to an admission that was not denied is an array.
  return command[0] === 'admit' && command[9] === null && Array.isArray(reply);
}
