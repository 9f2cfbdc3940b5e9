import { StorageLost } from '../../lib/sqlite/storage-lost.ts';
import type { Replies } from '../../lib/threads/serve-calls.ts';
import { waitsForSync, type WireCommand, type WireReply } from './wire.ts';

/** Posts a message to the thread that sent the commands. */
type Post = (...replies: Replies<WireReply>) => void;

/** What `Commits` works with. */
export interface CommitSteps {
  /** Executes and commits a batch. */
  readonly commit: (batch: readonly WireCommand[]) => WireReply[];
  /** Called after each commit, when its replies that need no sync are posted. */
  readonly onCommitted: (post: Post) => void;
  /** Calls back when everything that is committed now is on the disk, or with the error. It is not called again before. */
  readonly sync: (onSynced: (error: Error | null) => void) => void;
}

/** If more commands wait for a running sync, they are committed during it: otherwise a sync of seconds would leave too many that a killed process loses, and too long a commit. */
const waitingMax = 256;

/**
 * Commits batches of commands. Replies that must not be lost in a power cut are posted after a sync of the disk, for which later commands do not wait. Commands that
 * arrive during a sync and need one themselves wait: for the end of that sync, because theirs can't begin before, or for a command that does not need one. They
 * are committed together then, which costs less CPU and fewer written pages than one by one, and delays their replies by this commit only.
 */
export class Commits {
  readonly #steps: CommitSteps;
  /** The commands that are not executed yet. They need a sync. */
  #waiting: WireCommand[] = [];
  /** Replies to commands that no sync covers yet. */
  #unsynced: WireReply[] = [];
  #isSyncing = false;

  constructor(steps: CommitSteps) {
    this.#steps = steps;
  }

  /** Executes a batch, now or when the running sync ends. */
  run(batch: readonly WireCommand[], post: Post): void {
    const hasRoom = this.#waiting.length + batch.length <= waitingMax;
    if (this.#isSyncing && hasRoom && batch.every(waitsForSync)) this.#waiting.push(...batch);
    else this.#commit(batch, post);
  }

  #commit(batch: readonly WireCommand[], post: Post): void {
    const waited = this.#waiting;
    this.#waiting = [];
    const replies = this.#steps.commit(waited.length === 0 ? batch : [...waited, ...batch]);
    this.#unsynced.push(...replies.slice(0, waited.length));
    // Not `map`: see `toDense`.
    const now: (WireReply | undefined)[] = [];
    let areAllLater = true;
    for (const [index, command] of batch.entries()) {
      const reply = replies[waited.length + index];
      const isLater = waitsForSync(command);
      if (isLater && reply !== undefined) this.#unsynced.push(reply);
      areAllLater &&= isLater;
      now.push(isLater ? undefined : reply);
    }
    if (!areAllLater) post('now', now);
    this.#steps.onCommitted(post);
    if (!this.#isSyncing) this.#startSync(post);
  }

  #startSync(post: Post): void {
    const covered = this.#unsynced;
    if (covered.length === 0) return;
    this.#unsynced = [];
    this.#isSyncing = true;
    this.#steps.sync(error => {
      if (error !== null) throw new StorageLost(error);
      this.#isSyncing = false;
      post('later', covered);
      if (this.#waiting.length > 0) this.#commit([], post);
      else this.#startSync(post);
    });
  }
}
