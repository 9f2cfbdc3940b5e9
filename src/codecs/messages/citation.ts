import { type Annotation, Protocol } from '../../gen/tollgate/v1/content_pb.ts';
import type { JsonObject } from '../codec.ts';
import { extraOf, urlCitation } from '../content.ts';
import { textIn } from '../json.ts';
import { extraMembers } from './extra.ts';

/** Citations: the block's own go back as they came; those of web pages are also told as addresses, which every protocol has. Source: wire.md C3. */

/** A citation as the block has it. */
export function annotationOf(citation: JsonObject): Annotation {
  const other = extraOf(Protocol.MESSAGES, JSON.stringify(citation));
  return { $typeName: 'tollgate.v1.Annotation', annotation: { case: 'other', value: other } };
}

/** The same as an address for clients of other protocols; undefined where it names none. */
export function addressOf(citation: JsonObject): Annotation | undefined {
  const url = textIn(citation['url']);
  if (url === '') return undefined;
  const value = urlCitation({ url, title: textIn(citation['title']) });
  return { $typeName: 'tollgate.v1.Annotation', annotation: { case: 'urlCitation', value } };
}

/** Citations of one text in the form of this protocol. */
export class CitationRenderer {
  #lastUrl = '';

  /** Undefined where it was told already, or can't be said here. */
  render({ annotation }: Annotation): JsonObject | undefined {
    if (annotation.case === 'other') {
      if (annotation.value.protocol !== Protocol.MESSAGES) return undefined;
      const citation = extraMembers(annotation.value);
      this.#lastUrl = textIn(citation['url']);
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
