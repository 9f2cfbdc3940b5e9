import type { Opaque, Part } from '../gen/tollgate/v1/content_pb.ts';
import type { Json } from './codec.ts';
import { opaqueOf, partOf, reasoningTextContent, summaryTextContent } from './content.ts';
import { listIn, objectIn, textIn } from './json.ts';

/**
 * Blobs of thoughts, with their provenance and the thoughts that they sign, as one text: for protocols whose one place for a blob says neither who made it nor of which kind the
 * thoughts are. What is signed goes back as it came, text included. Source: decisions §4 (2026-11-22).
 */

const start = 'tgb1.';

/** What an envelope holds. */
export interface EnvelopedThoughts {
  readonly blobs: Opaque[];
  /** Undefined: the thoughts stand beside the envelope as they are. */
  readonly parts: Part[] | undefined;
}

/** Returns blobs and thoughts as one text. Without `parts` the thoughts are not in it. */
export function wrapThoughts(blobs: readonly Opaque[], parts: readonly Part[] = []): string {
  const entries = blobs.map(({ provider, model, kind, data }) => [provider, model, kind, data]);
  const thoughts = parts.flatMap(({ content }) =>
    content.case === 'summaryText' || content.case === 'reasoningText' ? [[content.case, content.value.text]] : [],
  );
  const said = thoughts.length === 0 ? entries : { blobs: entries, parts: thoughts };
  return start + Buffer.from(JSON.stringify(said), 'utf8').toString('base64url');
}

/** Returns what an envelope holds; undefined if the text is none. */
export function unwrapThoughts(text: string): EnvelopedThoughts | undefined {
  if (!text.startsWith(start)) return undefined;
  try {
    const said = JSON.parse(Buffer.from(text.slice(start.length), 'base64url').toString('utf8')) as Json;
    const members = objectIn(said);
    const blobs = listIn(members === undefined ? said : members['blobs']).map(entry => {
      const [provider, model, kind, data] = listIn(entry).map(textIn);
      return opaqueOf(kind ?? '', data ?? '', provider, model);
    });
    const parts = listIn(members?.['parts']).map(entry => {
      const [kind, thought = ''] = listIn(entry).map(textIn);
      return partOf(kind === 'summaryText' ? summaryTextContent(thought) : reasoningTextContent(thought));
    });
    return { blobs, parts: parts.length === 0 ? undefined : parts };
  } catch {
    // Not of ours after all: its maker will judge it.
    return undefined;
  }
}
