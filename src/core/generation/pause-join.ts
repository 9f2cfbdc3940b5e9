import { FinishReason, type GenerationEvent } from '../../gen/tollgate/v1/event_pb.ts';
import type { GenerateRequest } from '../../gen/tollgate/v1/request_pb.ts';
import { EventLog } from '../../generation/event-log.ts';
import { foldEvents } from '../../generation/fold.ts';
import { itemNumber, withItem } from '../../generation/guard/serialise.ts';

/**
 * How often an upstream may pause one answer; after that the pause is reported as a length limit. Source:
 * docs/interfaces/README.md "Finish reasons".
 */
const pausesMax = 8;

/**
 * Joins several upstream calls into one answer. After a pause the upstream is called again to continue, and the client does not notice: the end of the paused call and the start of the next one are dropped, and the numbers of items continue.
 */
export class PauseJoin {
  #pauses = 0;
  #offset = 0;
  #opened = 0;
  /** The output of the current call so far, for the request that continues it. */
  #output = new EventLog();
  #isPaused = false;

  /** True until the upstream has paused. */
  get isFirstCall(): boolean {
    return this.#pauses === 0;
  }

  /** True if the current call has ended with a pause, so that another one must follow. */
  get isPaused(): boolean {
    return this.#isPaused;
  }

  push(batch: readonly GenerationEvent[]): GenerationEvent[] {
    const joined: GenerationEvent[] = [];
    for (const event of batch) {
      this.#output.add(withoutLogprobs(event));
      const kept = this.#join(event);
      if (kept !== undefined) joined.push(kept);
    }
    return joined;
  }

  /** Begins another call of the answer. Returns the output of the paused call. */
  beginNextCall(): readonly GenerationEvent[] {
    const output = this.#output.read();
    this.#output = new EventLog();
    this.#isPaused = false;
    this.#offset += this.#opened;
    this.#opened = 0;
    this.#pauses += 1;
    return output;
  }

  #join(event: GenerationEvent): GenerationEvent | undefined {
    const { event: step } = event;
    if (step.case === 'started' && this.#pauses > 0) return undefined;
    if (step.case === 'finished' && step.value.reason === FinishReason.PAUSE) return this.#pause(event);
    // If a second finish event comes, it replaces the first one.
    if (step.case === 'finished') this.#isPaused = false;
    if (step.case === 'completed' && this.#isPaused) return undefined;
    if (step.case === 'itemOpened') this.#opened += 1;
    const item = itemNumber(event);
    return item === undefined ? event : withItem(event, item + this.#offset);
  }

  #pause(event: GenerationEvent): GenerationEvent | undefined {
    if (this.#pauses < pausesMax) {
      this.#isPaused = true;
      return undefined;
    }
    if (event.event.case !== 'finished') return event;
    return { ...event, event: { case: 'finished', value: { ...event.event.value, reason: FinishReason.LENGTH } } };
  }
}

/** The upstream does not get logprobs back, which can be a hundred times as large as the text. */
function withoutLogprobs(event: GenerationEvent): GenerationEvent {
  const { event: step } = event;
  if (step.case !== 'delta' || step.value.logprobs.length === 0) return event;
  return { ...event, event: { case: 'delta', value: { ...step.value, logprobs: [] } } };
}

/**
 * Returns the request that continues a paused answer: the same request with the output so far as its last items.
 */
export function toContinuation(request: GenerateRequest, output: readonly GenerationEvent[]): GenerateRequest {
  const items = foldEvents(output).choices.flatMap(choice => choice.items);
  const next: GenerateRequest = { ...request, items: [...request.items, ...items] };
  // The client's original JSON lacks the output so far, so the upstream's request must be built from the fields.
  delete next.source;
  return next;
}
