import type { WireCommand } from './sqlite/wire.ts';

/** The most waiting commands of a thread. If there are more, admissions are refused, but never settles and voids: a request that has begun must end. */
export const admissionsMax = 20_000;
/** If more of an account's admissions wait, a batch takes this part of them, so that a long queue does not become longer because its batches are short. */
const waitingShare = 1 / 8;
/** For how long after admissions of two accounts have followed each other the accounts count as sharing the gateway. */
const sharedMs = 1000;

/**
 * Chooses the commands of each batch. All replies of a batch are continued in one turn of the event loop: after an admission the gateway
 * sends the request to its upstream, and answers that were requested together also come together. So if one account sends many requests at
 * once, every request of another account would wait for all of them at each of these steps. While several accounts send requests, a batch
 * therefore takes only a few admissions of each; the others wait for the next batches. All other commands, which continue or end admitted
 * requests, are taken in the order in which they came.
 */
export class FairBatches<C extends { readonly request: WireCommand }> {
  readonly #admitsMin: number;
  readonly #nowMs: () => number;
  #lastAccountId: number | undefined;
  /** When admissions of different accounts last followed each other. */
  #alternatedAtMs = -Infinity;

  /** `admitsMin`: a batch always takes this many admissions of each account. The longer a batch takes, the more come in that time. */
  constructor(admitsMin: number, nowMs: () => number) {
    this.#admitsMin = admitsMin;
    this.#nowMs = nowMs;
  }

  /** Removes at most `max` commands from the queue, and returns them in their order; at least one if there are any. */
  take(queue: C[], max: number): C[] {
    const isShared = this.#isShared(queue);
    if (!isShared || queue.length <= this.#admitsMin) return queue.splice(0, max);
    const room = countRoom(queue, this.#admitsMin);
    const batch: C[] = [];
    let kept = 0;
    for (const command of queue) {
      if (batch.length < max && takesRoom(room, command.request)) batch.push(command);
      else queue[kept++] = command;
    }
    queue.length = kept;
    return batch;
  }

  /** Returns whether several accounts send requests. */
  #isShared(queue: readonly C[]): boolean {
    const nowMs = this.#nowMs();
    for (const { request } of queue) {
      if (request[0] !== 'admit' || request[5] === this.#lastAccountId) continue;
      if (this.#lastAccountId !== undefined) this.#alternatedAtMs = nowMs;
      this.#lastAccountId = request[5];
    }
    return nowMs - this.#alternatedAtMs < sharedMs;
  }
}

/** Returns, by account, how many of its admissions the next batch takes. */
function countRoom(
  queue: readonly { readonly request: WireCommand }[],
  admitsMin: number,
): Map<number | undefined, number> {
  const room = new Map<number | undefined, number>();
  for (const { request } of queue)
    if (request[0] === 'admit') room.set(request[5], (room.get(request[5]) ?? 0) + waitingShare);
  for (const [accountId, share] of room) room.set(accountId, Math.max(admitsMin, Math.ceil(share)));
  return room;
}

/** Returns whether the batch takes a command; if it is an admission, it has used its account's room. */
function takesRoom(room: Map<number | undefined, number>, request: WireCommand): boolean {
  if (request[0] !== 'admit') return true;
  const left = room.get(request[5]) ?? 0;
  room.set(request[5], left - 1);
  return left > 0;
}
