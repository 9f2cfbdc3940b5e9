import type { JsonObject } from './codec.ts';

/** A search result's title, source and texts, for upstreams that know only text. */
export function searchResultText(json: string): string {
  const { title, source, content } = JSON.parse(json) as JsonObject;
  const texts = (Array.isArray(content) ? content : []).map(block =>
    typeof block === 'object' && block !== null && !Array.isArray(block) ? block['text'] : undefined,
  );
  const lines = [title, source, ...texts].filter(line => typeof line === 'string');
  return lines.filter(line => line !== '').join('\n\n');
}
