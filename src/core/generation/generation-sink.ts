import type { GenerationEvent } from '../../gen/tollgate/v1/event_pb.ts';

/** Receives the answer of one generation. */
export interface GenerationSink {
  /**
   * Receives events that the client may see, never an empty list. `completed`, with its cost, is the last event of
   * the last batch and comes when the charge is durable. A non-streamed answer comes as one batch. Must not throw.
   * May cancel or pause the generation.
   */
  events(events: GenerationEvent[]): void;
  /**
   * Called once the answer is complete but not yet charged, with the events that were not passed on yet; the last is `completed`,
   * without its cost. The charge waits for it; if it rejects, the generation fails with that error. Absent: nothing has to be durable before the
   * charge.
   */
  beforeSettle?(rest: readonly GenerationEvent[]): Promise<void>;
  /** Called if the answer broke off with `error`, before what was delivered is charged. Must not reject. Absent: there is nothing to do. */
  beforeBrokenSettle?(error: Error): Promise<void>;
  /**
   * Called once, last: the generation has ended, and its charge or void is durable (if they can't be written now, `error` says so).
   * `error`: the error for the client.
   */
  end(error?: Error): void;
}
