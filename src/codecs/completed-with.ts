import { type GenerationEvent, type Usage, UsageSource } from '../gen/tollgate/v1/event_pb.ts';
import type { ServiceTier } from '../gen/tollgate/v1/request_pb.ts';
import { completed } from '../generation/events.ts';

/** Returns the event `completed` with the usage that the upstream reported; without a usage, the gateway counts the tokens. */
export function completedWith(usage: Usage | undefined, serviceTier: ServiceTier): GenerationEvent {
  return usage === undefined
    ? completed({ serviceTier })
    : completed({ usage, usageSource: UsageSource.REPORTED, serviceTier });
}
