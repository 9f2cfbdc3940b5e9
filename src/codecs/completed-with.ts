import { type GenerationEvent, type Usage, UsageSource } from '../gen/tollgate/v1/event_pb.ts';
import { completed } from '../generation/events.ts';
import type { TierFields } from '../generation/service-tier.ts';

/** Returns the event `completed` with the usage that the upstream reported; without a usage, the gateway counts the tokens. */
export function completedWith(usage: Usage | undefined, tier: TierFields): GenerationEvent {
  return usage === undefined
    ? completed({ ...tier })
    : completed({ usage, usageSource: UsageSource.REPORTED, ...tier });
}
