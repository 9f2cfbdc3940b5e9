import { RequestStory } from '../telemetry/request-story.ts';
import type { Caller } from './credential.ts';

/** Returns the caller's request story; undefined if it is in another process, or there is none. */
export function findStory({ requestHeader }: Caller): RequestStory | undefined {
  return requestHeader instanceof RequestStory ? requestHeader : undefined;
}
