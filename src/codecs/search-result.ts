import type { Json } from './codec.ts';
import { objectIn, objectsIn, textIn } from './json.ts';

/** Returns a search result's title, source and texts as one text, for upstreams without search results. */
export function searchResultText(json: string): string {
  const { title, source, content } = objectIn(JSON.parse(json) as Json) ?? {};
  const lines = [title, source, ...objectsIn(content).map(block => block['text'])].map(textIn);
  return lines.filter(line => line !== '').join('\n\n');
}
