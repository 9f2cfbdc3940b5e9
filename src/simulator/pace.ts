import type { GenerationEvent } from '../gen/tollgate/v1/event_pb.ts';
import { awaitTurn } from '../lib/answer-turns.ts';
import { sleepOn } from '../lib/backoff.ts';
import type { Runtime } from '../lib/runtime.ts';

/** A step of an answer: an event, and the number of output tokens in it. */
export interface AnswerStep {
  readonly event: GenerationEvent;
  readonly tokens: number;
}

/** A step after which the answer stalls: nothing follows until it is aborted. */
export const stall = Symbol('stall');

/** The steps of a choice, in order. It ends by returning, or by throwing an `UpstreamFailure`. */
export type ChoiceSteps = Iterator<AnswerStep | typeof stall, void, void>;

/** The timers with which an answer waits, and the signal that ends the wait. */
export interface WaitOptions {
  readonly runtime: Runtime;
  readonly signal: AbortSignal;
  /** The account for which the answer is made; absent: none. */
  readonly accountId?: number | undefined;
}

/** Lets everything else that is ready run first. `account`: the number of the account for which an answer is made; absent: what is waited for takes little work. */
export function yieldToOthers(account = 0): Promise<void> {
  return awaitTurn(account);
}

/** The most events in one batch. It bounds how long an answer without pace blocks the event loop. */
const batchMax = 64;
/** Tokens that are due within this time are sent as one batch, because a timer for each would cost more than the answer. */
const tickMs = 20;
/** The timer of an answer that stalls: longer than any deadline of the gateway. */
const stallTimerMs = 2 ** 31 - 1;

/** Interleaves the events of several choices, as an upstream does. */
class Choices {
  #running: { steps: ChoiceSteps; tokens: number }[];
  /** True if a choice has stalled. The whole answer stalls then. */
  isStalled = false;
  /** The failure that ended the answer. It is thrown only after everything before it was sent. */
  failure: Error | undefined;

  constructor(steps: readonly ChoiceSteps[]) {
    this.#running = steps.map(each => ({ steps: each, tokens: 0 }));
  }

  get isOver(): boolean {
    return this.#running.length === 0 || this.isStalled || this.failure !== undefined;
  }

  /** Adds events of all choices in turn to the batch, until every choice has sent `due` tokens or the batch is full. */
  fillBatch(due: number, batch: GenerationEvent[]): void {
    // Whether any choice took a step in the last round.
    let advanced = true;
    while (advanced && !this.isOver && batch.length < batchMax) {
      advanced = false;
      for (const choice of this.#running) {
        if (this.isOver || choice.tokens >= due) continue;
        advanced = true;
        const step = this.#next(choice.steps);
        if (step === undefined) continue;
        choice.tokens += step.tokens;
        batch.push(step.event);
      }
    }
  }

  #next(steps: ChoiceSteps): AnswerStep | undefined {
    try {
      const { done, value } = steps.next();
      if (done === true) this.#running = this.#running.filter(each => each.steps !== steps);
      else if (value === stall) this.isStalled = true;
      else return value;
    } catch (thrown) {
      this.failure = thrown instanceof Error ? thrown : new Error('a choice failed', { cause: thrown });
    }
    return undefined;
  }
}

/** An answer of one or more choices. */
export interface PacedAnswer {
  /** Sent at once. */
  readonly first: GenerationEvent;
  readonly choices: readonly ChoiceSteps[];
  /** Sent when all choices have ended. */
  readonly last: () => GenerationEvent;
}

/**
 * Yields the events of all choices in batches, at `tokensPerSecond` for each choice (0: as fast as they are read). It waits with timers; if `tokensPerSecond` is 0,
 * it lets other work of the event loop run between batches. Throws the signal's reason once the signal is aborted, even while the answer stalls.
 */
export async function* paced(
  answer: PacedAnswer,
  tokensPerSecond: number,
  { runtime, signal, accountId }: WaitOptions,
): AsyncGenerator<GenerationEvent[]> {
  const sleep = sleepOn(runtime);
  const choices = new Choices(answer.choices);
  const start = runtime.monotonicMs();
  let batch = [answer.first];
  for (;;) {
    const elapsedMs = runtime.monotonicMs() - start;
    const due = tokensPerSecond === 0 ? Infinity : 1 + Math.floor((elapsedMs * tokensPerSecond) / 1_000);
    choices.fillBatch(due, batch);
    if (choices.isOver) break;
    const isFull = batch.length >= batchMax;
    if (batch.length > 0) yield batch;
    batch = [];
    if (tokensPerSecond === 0 || isFull) await yieldToOthers(accountId);
    else await sleep(Math.max(tickMs, (due * 1_000) / tokensPerSecond - elapsedMs), signal);
    signal.throwIfAborted();
  }
  if (!choices.isStalled && choices.failure === undefined) batch.push(answer.last());
  if (batch.length > 0) yield batch;
  while (choices.isStalled) await sleep(stallTimerMs, signal);
  if (choices.failure !== undefined) throw choices.failure;
}
