import { RequestStory } from '../telemetry/request-story.ts';
import type { Caller } from './credential.ts';

/** Returns where the caller's edge gathers what becomes known of the request; undefined: it is in another process, or there is none. */
export function findStory({ requestHeader }: Caller): RequestStory | undefined {
  return requestHeader instanceof RequestStory ? requestHeader : undefined;
}
