import type { Annotation, UrlCitation } from '../../gen/tollgate/v1/content_pb.ts';
import type { JsonObject } from '../codec.ts';

/** Renders citations of web pages as Google's grounding metadata. Places are bytes of UTF-8, as Google's types say. Source: docs/interfaces/gemini.md "Answer". */

/** A citation, and where its part begins in the text of the answer. */
interface PlacedCitation {
  readonly citation: UrlCitation;
  /** UTF-16 units of text before the part. */
  readonly partStart: number;
}

/** Collects the citations of one candidate. */
export class Grounding {
  readonly #citations: PlacedCitation[] = [];

  add({ annotation }: Annotation, partStart: number): void {
    if (annotation.case === 'urlCitation') this.#citations.push({ citation: annotation.value, partStart });
  }

  /** Returns `groundingMetadata` for the text of the answer; undefined if there are no citations. */
  render(text: string): JsonObject | undefined {
    if (this.#citations.length === 0) return undefined;
    const pages = new Map<string, number>();
    const chunks: JsonObject[] = [];
    const supports: JsonObject[] = [];
    for (const { citation, partStart } of this.#citations) {
      const { url, title, startIndex, endIndex } = citation;
      let page = pages.get(url);
      if (page === undefined) {
        page = chunks.length;
        pages.set(url, page);
        chunks.push({ web: { uri: url, ...(title === '' ? {} : { title }) } });
      }
      if (endIndex <= startIndex) continue;
      const from = partStart + startIndex;
      const to = Math.min(partStart + endIndex, text.length);
      const segment = {
        startIndex: bytes(text.slice(0, from)),
        endIndex: bytes(text.slice(0, to)),
        text: text.slice(from, to),
      };
      supports.push({ segment, groundingChunkIndices: [page] });
    }
    return { groundingChunks: chunks, ...(supports.length === 0 ? {} : { groundingSupports: supports }) };
  }
}

function bytes(text: string): number {
  return Buffer.byteLength(text);
}
