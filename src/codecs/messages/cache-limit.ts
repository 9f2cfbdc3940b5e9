import type { Json, JsonObject } from '../codec.ts';
import { objectsIn } from '../json.ts';

/** The most cache hints that Anthropic accepts in one request; a request with more is refused. Source: translation case US-14. */
const hintsMax = 4;

/**
 * Removes cache hints beyond the maximum from a request of another protocol, which has no such limit; otherwise the request would be
 * refused. The first hint stays, because it marks what conversations share, and the last ones stay, because they mark the longest prefixes.
 * Changes `body`.
 */
export function limitCacheHints(body: JsonObject): void {
  // The order of a prompt is tools, system, messages; a hint for the whole request counts too.
  const marked = ['tools', 'system', 'messages'].flatMap(name => markedIn(body[name]));
  const room = body['cache_control'] === undefined ? hintsMax : hintsMax - 1;
  if (marked.length <= room) return;
  for (const block of marked.slice(1, marked.length - room + 1)) delete block['cache_control'];
}

/**
 * Returns every object that has a cache hint, in the order of the prompt: the blocks of a message or a result precede their
 * container.
 */
function markedIn(value: Json | undefined): JsonObject[] {
  return objectsIn(value).flatMap(block => [
    ...markedIn(block['content']),
    ...(block['cache_control'] === undefined ? [] : [block]),
  ]);
}
