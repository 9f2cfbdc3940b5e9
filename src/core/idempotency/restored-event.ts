import type { GenerationEvent, LimitState } from '../../gen/tollgate/v1/event_pb.ts';

/** Facts of an answer that were unknown when it was stored, or that have changed since then. */
export interface RestoredFacts {
  /** The cost of the request; 0 if it is not charged yet. */
  readonly costNanoUsd: bigint;
  /** The key's request windows as they are now. */
  readonly limits: LimitState[];
}

/** Returns an event of a stored answer as it is to be sent now. */
export function restoredEvent(event: GenerationEvent, { costNanoUsd, limits }: RestoredFacts): GenerationEvent {
  const { event: step } = event;
  if (step.case === 'completed') return { ...event, event: { ...step, value: { ...step.value, costNanoUsd } } };
  if (step.case === 'started') return { ...event, event: { ...step, value: { ...step.value, limits } } };
  return event;
}
