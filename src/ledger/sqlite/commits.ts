import { StorageLost } from '../../lib/sqlite/storage-lost.ts';
import type { PostReplies } from '../../lib/threads/serve-calls.ts';
import { waitsForSync, type WireCommand, type WireReply } from './wire.ts';

/** Posts a message to the thread that sent the commands. */
type Post = PostReplies<WireReply>;

/** The dependencies of `Commits`. */
export interface CommitSteps {
  /** Executes and commits a batch. */
  readonly commit: (batch: readonly WireCommand[]) => WireReply[];
  /** Called after each commit, when its replies that need no sync are posted. */
  readonly onCommitted: (post: Post) => void;
  /** Calls back when everything that is committed now is on the disk, or with the error. It is not called again before. */
  readonly sync: (onSynced: (error: Error | null) => void) => void;
}

/** The commands of one message. */
interface Sent {
  readonly batch: readonly WireCommand[];
  readonly post: Post;
}

/** Replies to one sender. */
interface Owed {
  readonly post: Post;
  readonly replies: WireReply[];
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
  /** The messages of this turn of the event loop, which are executed at its end; undefined: each is executed as it comes. */
  #turn: { readonly others: Sent[]; readonly owner: Sent[] } | undefined;
  /** The messages that are not executed yet. All their commands need a sync. */
  #waiting: Sent[] = [];
  /** Replies to commands that no sync covers yet. */
  #unsynced: Owed[] = [];
  #isSyncing = false;

  constructor(steps: CommitSteps) {
    this.#steps = steps;
  }

  /**
   * Expects commands of several senders from now on: what they send at the same time is committed together. The owner's commands come last, so that when it voids the holds of a sender that
   * has ended, what that sender had sent was executed.
   */
  share(): void {
    this.#turn ??= { others: [], owner: [] };
  }

  /** Executes a batch, now or when the running sync ends. */
  run(batch: readonly WireCommand[], post: Post, isOwner: boolean): void {
    const turn = this.#turn;
    if (turn === undefined) return this.#run([{ batch, post }]);
    if (turn.others.length + turn.owner.length === 0) setImmediate(() => this.#runTurn(turn));
    (isOwner ? turn.owner : turn.others).push({ batch, post });
  }

  #runTurn({ others, owner }: { readonly others: Sent[]; readonly owner: Sent[] }): void {
    this.#run([...others.splice(0), ...owner.splice(0)]);
  }

  #run(sent: readonly Sent[]): void {
    const count = countCommands(this.#waiting) + countCommands(sent);
    if (this.#isSyncing && count <= waitingMax && sent.every(({ batch }) => batch.every(waitsForSync)))
      this.#waiting.push(...sent);
    else this.#commit(sent);
  }

  #commit(sent: readonly Sent[]): void {
    const waited = this.#waiting;
    this.#waiting = [];
    const all = waited.length === 0 ? sent : [...waited, ...sent];
    const [first] = all;
    const commands = all.length === 1 && first !== undefined ? first.batch : all.flatMap(({ batch }) => batch);
    const replies = this.#steps.commit(commands);
    let next = 0;
    for (const { batch, post } of all) {
      this.#reply(batch, replies.slice(next, next + batch.length), post);
      next += batch.length;
    }
    // A notice goes to the owner, whoever has sent the commands.
    if (first !== undefined) this.#steps.onCommitted(first.post);
    if (!this.#isSyncing) this.#startSync();
  }

  /** Posts the replies to a message that need no sync, and keeps the others. */
  #reply(batch: readonly WireCommand[], replies: readonly WireReply[], post: Post): void {
    // These lists are not made by `map`: see `toDense`.
    const now: (WireReply | undefined)[] = [];
    let areAllLater = true;
    for (const [index, command] of batch.entries()) {
      const reply = replies[index];
      const isLater = waitsForSync(command);
      if (isLater && reply !== undefined) this.#owe(reply, post);
      areAllLater &&= isLater;
      now.push(isLater ? undefined : reply);
    }
    if (!areAllLater) post('now', now);
  }

  #owe(reply: WireReply, post: Post): void {
    const owed = this.#unsynced.find(each => each.post === post);
    if (owed === undefined) this.#unsynced.push({ post, replies: [reply] });
    else owed.replies.push(reply);
  }

  #startSync(): void {
    const covered = this.#unsynced;
    if (covered.length === 0) return;
    this.#unsynced = [];
    this.#isSyncing = true;
    this.#steps.sync(error => {
      if (error !== null) throw new StorageLost(error);
      this.#isSyncing = false;
      for (const { post, replies } of covered) post('later', replies);
      if (this.#waiting.length > 0) this.#commit([]);
      else this.#startSync();
    });
  }
}

function countCommands(sent: readonly Sent[]): number {
  let count = 0;
  for (const { batch } of sent) count += batch.length;
  return count;
}
