import { ExtensionScope, type GenerationEvent } from '../gen/tollgate/v1/event_pb.ts';
import type { EventRestorer } from './answer-reader.ts';

/**
 * Removes the `timings` of every chunk, which the gateway requested to count tokens during the answer and the client did not request. Those at the end of the answer stay.
 */
export class RunningTimings implements EventRestorer {
  #hasFinished = false;

  restored(events: GenerationEvent[]): GenerationEvent[] {
    return events.flatMap(event => this.#restore(event));
  }

  #restore(whole: GenerationEvent): GenerationEvent[] {
    const { event } = whole;
    if (event.case === 'finished') this.#hasFinished = true;
    if (this.#hasFinished || event.case !== 'extension' || event.value.scope !== ExtensionScope.RESPONSE)
      return [whole];
    const { extra } = event.value;
    if (extra === undefined || !extra.json.includes('"timings"')) return [whole];
    const { timings: _, ...rest } = JSON.parse(extra.json) as Record<string, unknown>;
    if (Object.keys(rest).length === 0) return [];
    const value = { ...event.value, extra: { ...extra, json: JSON.stringify(rest) } };
    return [{ ...whole, event: { case: 'extension', value } }];
  }
}
