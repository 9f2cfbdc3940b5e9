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
 * Joins several calls into one answer: after a pause the upstream is called again to continue, and the client never sees the pause. Of every further call the start event is dropped, and its items continue the numbering; the end of a paused call is not passed on.
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

  /** True if the present call has ended with a pause, so that another has to follow. */
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

  /** Starts another call for the answer; returns the output of the paused one. */
  goOn(): readonly GenerationEvent[] {
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
    // A later finish replaces an earlier one.
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

/** The upstream gets the text, not its logprobs: those of a long answer are a hundred times as large. */
function withoutLogprobs(event: GenerationEvent): GenerationEvent {
  const { event: step } = event;
  if (step.case !== 'delta' || step.value.logprobs.length === 0) return event;
  return { ...event, event: { case: 'delta', value: { ...step.value, logprobs: [] } } };
}

/**
 * Returns the request that continues a paused answer: the same one, with the output so far as the assistant's latest
 * items.
 */
export function continued(request: GenerateRequest, output: readonly GenerationEvent[]): GenerateRequest {
  const items = foldEvents(output).choices.flatMap(choice => choice.items);
  const next: GenerateRequest = { ...request, items: [...request.items, ...items] };
  // The client's own JSON lacks the output so far: the request has to be built from the contract.
  delete next.source;
  return next;
}
