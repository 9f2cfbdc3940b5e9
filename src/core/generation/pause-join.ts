import { FinishReason, type GenerationEvent } from '../../gen/tollgate/v1/event_pb.ts';
import type { GenerateRequest } from '../../gen/tollgate/v1/request_pb.ts';
import { EventLog } from '../../generation/event-log.ts';
import { foldEvents } from '../../generation/fold.ts';
import { itemOf, withItem } from '../../generation/guard/serialise.ts';

/** How often an upstream may pause one answer; after that the pause is told as a length limit. Source: decisions §4 ("bounded"). */
const pausesMax = 8;

/**
 * Makes one answer of several calls: an upstream that pauses is asked to go on, and the client never sees it. Of every further call the start is
 * left out and the items are counted on; a pause's own end is kept back.
 */
export class PauseJoin {
  #pauses = 0;
  #offset = 0;
  #opened = 0;
  /** What the present call has said so far, for the request that goes on from it. */
  #said = new EventLog();
  #isPaused = false;

  /** No pause has come yet. */
  get isFirstCall(): boolean {
    return this.#pauses === 0;
  }

  /** The present call has ended with a pause, so that another has to follow. */
  get isPaused(): boolean {
    return this.#isPaused;
  }

  push(batch: readonly GenerationEvent[]): GenerationEvent[] {
    const joined: GenerationEvent[] = [];
    for (const event of batch) {
      this.#said.add(withoutLogprobs(event));
      const kept = this.#join(event);
      if (kept !== undefined) joined.push(kept);
    }
    return joined;
  }

  /** Another call goes on with the answer; answers what the paused one said. */
  goOn(): readonly GenerationEvent[] {
    const said = this.#said.read();
    this.#said = new EventLog();
    this.#isPaused = false;
    this.#offset += this.#opened;
    this.#opened = 0;
    this.#pauses += 1;
    return said;
  }

  #join(event: GenerationEvent): GenerationEvent | undefined {
    const { event: step } = event;
    if (step.case === 'started' && this.#pauses > 0) return undefined;
    if (step.case === 'finished' && step.value.reason === FinishReason.PAUSE) return this.#pause(event);
    // The last finish holds.
    if (step.case === 'finished') this.#isPaused = false;
    if (step.case === 'completed' && this.#isPaused) return undefined;
    if (step.case === 'itemOpened') this.#opened += 1;
    const item = itemOf(event);
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

/** An upstream that goes on is told what was said, not how likely it was: of a long answer the latter is a hundred times as much. */
function withoutLogprobs(event: GenerationEvent): GenerationEvent {
  const { event: step } = event;
  if (step.case !== 'delta' || step.value.logprobs.length === 0) return event;
  return { ...event, event: { case: 'delta', value: { ...step.value, logprobs: [] } } };
}

/** The request that goes on where a paused answer stopped: the same, with what was said so far as the assistant's latest items. */
export function continued(request: GenerateRequest, said: readonly GenerationEvent[]): GenerateRequest {
  const items = foldEvents(said).choices.flatMap(choice => choice.items);
  const next: GenerateRequest = { ...request, items: [...request.items, ...items] };
  // The client's own JSON says nothing of what was answered since: the request has to be built from the model.
  delete next.source;
  return next;
}
