import type { Annotation } from '../../gen/tollgate/v1/content_pb.ts';
import type { JsonObject } from '../codec.ts';
import { urlAnnotation } from '../content.ts';
import { textIn } from '../json.ts';
import { extras } from './extras.ts';

/**
 * Converts citations. A Messages client gets citations unchanged; those of web pages also become URL citations, which every protocol has.
 * Source: docs/interfaces/README.md "Translation".
 */

/** Returns a citation as a URL citation for clients of other protocols; undefined if it has no URL. */
export function toUrlAnnotation(citation: JsonObject): Annotation | undefined {
  const url = textIn(citation['url']);
  return url === '' ? undefined : urlAnnotation({ url, title: textIn(citation['title']) });
}

/** Renders the citations of one text. */
export class CitationRenderer {
  #lastUrl = '';

  /** Returns the citation; undefined if it was already sent, or can't be expressed here. */
  render({ annotation }: Annotation): JsonObject | undefined {
    if (annotation.case === 'other') {
      const citation = extras.own(annotation.value);
      if (citation !== undefined) this.#lastUrl = textIn(citation['url']);
      return citation;
    }
    if (annotation.case !== 'urlCitation') return undefined;
    const { url, title } = annotation.value;
    const wasSent = url === this.#lastUrl;
    this.#lastUrl = '';
    if (wasSent) return undefined;
    return { type: 'web_search_result_location', url, title, cited_text: '', encrypted_index: '' };
  }
}
