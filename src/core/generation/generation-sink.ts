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
   * Called when the answer is complete but not yet charged. `rest`: the events that were not passed on yet; the last one is `completed`,
   * without its cost. The charge waits for the promise; if it rejects, the generation fails with that error. Absent: nothing has to be
   * durable before the charge.
   */
  beforeSettle?(rest: readonly GenerationEvent[]): Promise<void>;
  /** Called if the answer broke off with `error`, before what was delivered is charged. Must not reject. Absent: nothing is to be done. */
  beforeBrokenSettle?(error: Error): Promise<void>;
  /**
   * Called once, after everything else. The charge or void is then durable, or could not be written, which `error` reports. `error`: the
   * error for the client.
   */
  end(error?: Error): void;
}
