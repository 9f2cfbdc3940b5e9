import { type GenerationEvent, type Usage, UsageSource } from '../gen/tollgate/v1/event_pb.ts';
import type { ServiceTier } from '../gen/tollgate/v1/request_pb.ts';
import { completed } from '../generation/events.ts';

/** Returns `completed` with the upstream's report; without a usage the gateway counts itself. */
export function completedWith(usage: Usage | undefined, serviceTier: ServiceTier): GenerationEvent {
  return completed({ ...(usage === undefined ? {} : { usage, usageSource: UsageSource.REPORTED }), serviceTier });
}
