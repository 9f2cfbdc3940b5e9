import type { Json } from './codec.ts';
import { objectIn, objectsIn, textIn } from './json.ts';

/** A search result's title, source and texts, for upstreams that know only text. */
export function searchResultText(json: string): string {
  const { title, source, content } = objectIn(JSON.parse(json) as Json) ?? {};
  const lines = [title, source, ...objectsIn(content).map(block => block['text'])].map(textIn);
  return lines.filter(line => line !== '').join('\n\n');
}
