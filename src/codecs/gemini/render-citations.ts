import { type Annotation, Protocol, type UrlCitation } from '../../gen/tollgate/v1/content_pb.ts';
import type { JsonObject } from '../codec.ts';

/** Renders citations of web pages as Google's grounding metadata. Places are bytes of UTF-8, as Google's types say. Source: docs/interfaces/gemini.md "Answer". */

/** A citation, and where its part begins in the text of the answer. */
interface PlacedCitation {
  readonly citation: UrlCitation;
  /** Its place in the text of the answer, in UTF-16 units; empty if it has none. */
  start: number;
  end: number;
  /** True until it is known where its part, which is its place, ends. */
  isOpen: boolean;
}

/** Collects the citations of one candidate. */
export class Grounding {
  readonly #citations: PlacedCitation[] = [];
  /** True if the next address belongs to a citation of Messages, whose place is its part. */
  #isOfPart = false;

  /** `partStart`: where the open part begins in the text of the answer, in UTF-16 units. */
  add({ annotation }: Annotation, partStart: number): void {
    if (annotation.case === 'other') this.#isOfPart = annotation.value.protocol === Protocol.MESSAGES;
    if (annotation.case !== 'urlCitation') return;
    const { startIndex, endIndex } = annotation.value;
    const isOpen = this.#isOfPart && endIndex <= startIndex;
    const end = isOpen ? partStart : partStart + endIndex;
    this.#citations.push({ citation: annotation.value, start: partStart + startIndex, end, isOpen });
    this.#isOfPart = false;
  }

  /** Called when a part ends; `end`: where, in the text of the answer. */
  endPart(end: number): void {
    for (const citation of this.#citations) {
      if (citation.isOpen) Object.assign(citation, { end, isOpen: false });
    }
  }

  /** Returns `groundingMetadata` for the text of the answer; undefined if there are no citations. */
  render(text: string): JsonObject | undefined {
    if (this.#citations.length === 0) return undefined;
    const pages = new Map<string, number>();
    const chunks: JsonObject[] = [];
    const supports: JsonObject[] = [];
    for (const { citation, start, end } of this.#citations) {
      const { url, title } = citation;
      let page = pages.get(url);
      if (page === undefined) {
        page = chunks.length;
        pages.set(url, page);
        chunks.push({ web: { uri: url, ...(title === '' ? {} : { title }) } });
      }
      if (end <= start) continue;
      const to = Math.min(end, text.length);
      const segment = {
        startIndex: bytes(text.slice(0, start)),
        endIndex: bytes(text.slice(0, to)),
        text: text.slice(start, to),
      };
      supports.push({ segment, groundingChunkIndices: [page] });
    }
    return { groundingChunks: chunks, ...(supports.length === 0 ? {} : { groundingSupports: supports }) };
  }
}

function bytes(text: string): number {
  return Buffer.byteLength(text);
}
