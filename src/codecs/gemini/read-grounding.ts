import type { Annotation } from '../../gen/tollgate/v1/content_pb.ts';
import type { JsonObject } from '../codec.ts';
import { urlAnnotation } from '../content.ts';
import { countIn, listIn, objectIn, objectsIn, textIn } from '../json.ts';

/** A citation, and the bytes of the candidate's text that it belongs to; 0 and 0: none in particular. */
interface Support {
  readonly url: string;
  readonly title: string;
  readonly start: number;
  readonly end: number;
}

/**
 * Reads the web pages that an answer is grounded on as citations, which every protocol has. Places are bytes of UTF-8 in the candidate's whole text. Source: Google, "Grounding with Google Search"
 * (2026-10); the recorded answers of 2025 and 2026.
 */
export class GroundingReader {
  #waiting: Support[] = [];
  readonly #seen = new Set<string>();
  /** The candidate's text, as long as citations can come. */
  #text = '';
  #partStart = 0;

  /** Adds text of the part that is open. */
  addText(text: string): void {
    this.#text += text;
  }

  /** Begins a part. */
  beginPart(): void {
    this.#partStart = this.#text.length;
  }

  /** Reads `groundingMetadata`. A chunk may repeat what came in an earlier one. */
  read(metadata: JsonObject | undefined): void {
    if (metadata === undefined) return;
    const pages = objectsIn(metadata['groundingChunks']).map(each => objectIn(each['web']));
    const cited = new Set<number>();
    for (const support of objectsIn(metadata['groundingSupports'])) {
      const segment = objectIn(support['segment']);
      const place = { start: countIn(segment?.['startIndex']) ?? 0, end: countIn(segment?.['endIndex']) ?? 0 };
      for (const index of listIn(support['groundingChunkIndices'])) {
        if (typeof index !== 'number') continue;
        cited.add(index);
        this.#add(pages[index], place);
      }
    }
    for (const [index, page] of pages.entries()) if (!cited.has(index)) this.#add(page, { start: 0, end: 0 });
  }

  /** Returns the citations of the part that is open, once each. `isLast`: no other part will come. */
  take(isLast: boolean): Annotation[] {
    if (this.#waiting.length === 0) return [];
    const written = Buffer.byteLength(this.#text);
    const due = this.#waiting.filter(({ end }) => isLast || end <= written);
    this.#waiting = this.#waiting.filter(each => !due.includes(each));
    const bytes = Buffer.from(this.#text);
    const toIndex = (byte: number): number =>
      Math.max(0, bytes.subarray(0, byte).toString('utf8').length - this.#partStart);
    return due.map(({ url, title, start, end }) =>
      urlAnnotation({ url, title, startIndex: toIndex(start), endIndex: toIndex(end) }),
    );
  }

  #add(page: JsonObject | undefined, place: { readonly start: number; readonly end: number }): void {
    const url = textIn(page?.['uri']);
    const key = `${place.start} ${place.end} ${url}`;
    if (url === '' || this.#seen.has(key)) return;
    this.#seen.add(key);
    this.#waiting.push({ url, title: textIn(page?.['title']), ...place });
  }
}
