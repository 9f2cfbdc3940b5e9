import type { Annotation } from '../../gen/tollgate/v1/content_pb.ts';
import type { JsonObject } from '../codec.ts';
import { urlAnnotation } from '../content.ts';
import { textIn } from '../json.ts';
import { extras } from './extras.ts';

/** Citations: the block's own go back as they came; those of web pages are also told as addresses, which every protocol has. Source: wire.md C3. */

/** A citation as an address for clients of other protocols; undefined where it names none. */
export function addressOf(citation: JsonObject): Annotation | undefined {
  const url = textIn(citation['url']);
  return url === '' ? undefined : urlAnnotation({ url, title: textIn(citation['title']) });
}

/** Citations of one text in the form of this protocol. */
export class CitationRenderer {
  #lastUrl = '';

  /** Undefined where it was told already, or can't be said here. */
  render({ annotation }: Annotation): JsonObject | undefined {
    if (annotation.case === 'other') {
      const citation = extras.own(annotation.value);
      if (citation !== undefined) this.#lastUrl = textIn(citation['url']);
      return citation;
    }
    if (annotation.case !== 'urlCitation') return undefined;
    const { url, title } = annotation.value;
    const isTold = url === this.#lastUrl;
    this.#lastUrl = '';
    if (isTold) return undefined;
    return { type: 'web_search_result_location', url, title, cited_text: '', encrypted_index: '' };
  }
}
