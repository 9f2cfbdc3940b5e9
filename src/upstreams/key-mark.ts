import type { GenerationEvent } from '../gen/tollgate/v1/event_pb.ts';
import type { EventRestorer } from './answer-reader.ts';

/** Names the key that answers a request in the start of the answer, by its place among the keys ("#2"), and keeps the conversation at its key. */
export class KeyMark implements EventRestorer {
  readonly affinity: string;
  #number = 0;

  constructor(affinity: string) {
    this.affinity = affinity;
  }

  readonly keyPicked = (index: number): void => {
    this.#number = index + 1;
  };

  restored(events: GenerationEvent[]): GenerationEvent[] {
    for (const { event } of events) if (event.case === 'started') event.value.route = `#${this.#number}`;
    return events;
  }
}
