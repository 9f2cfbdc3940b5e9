import type { GenerationEvent } from '../../gen/tollgate/v1/event_pb.ts';

/** Receives the answer of one generation. */
export interface GenerationSink {
  /**
   * Receives events that the client may see; the list is never empty. The last event of the answer is `completed` with the cost; it comes when the charge is durable. An answer that is not streamed comes in one call. Must not throw. May cancel or pause the generation.
   */
  events(events: GenerationEvent[]): void;
  /**
   * Called when the answer is complete but not charged yet, with the events that were not passed to `events` so far; the last of them is `completed`, without the cost. The answer is charged when the promise resolves; if it rejects, the generation fails with that error. Absent: nothing has to be durable before the charge.
   */
  beforeSettle?(rest: readonly GenerationEvent[]): Promise<void>;
  /** Called if the answer broke off with `error`, before the delivered part is charged. Must not reject. Absent: there is nothing to do. */
  beforeBrokenSettle?(error: Error): Promise<void>;
  /**
   * Called last, once: the generation has ended, and it was durably charged or its hold voided. `error`: the client's error, also if the charge can't be written now; absent: the answer is complete.
   */
  end(error?: Error): void;
}
