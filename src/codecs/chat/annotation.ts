import { type Annotation, Protocol } from '../../gen/tollgate/v1/content_pb.ts';
import type { Json, JsonObject } from '../codec.ts';
import { extraOf, urlCitation } from '../content.ts';
import { extraMembers } from './reasoning-details.ts';

/** Citations in Chat's form and back: addresses for every protocol, others only for Chat's own clients. Source: wire.md C3. */

/** Undefined where the citation can't be said in Chat. */
export function renderAnnotation({ annotation }: Annotation): JsonObject | undefined {
  if (annotation.case === 'urlCitation') {
    const { url, title, startIndex, endIndex } = annotation.value;
    return { type: 'url_citation', url_citation: { url, title, start_index: startIndex, end_index: endIndex } };
  }
  if (annotation.case !== 'other' || annotation.value.protocol !== Protocol.CHAT) return undefined;
  return extraMembers(annotation.value);
}

function indexOf(value: Json | undefined): number {
  return typeof value === 'number' && Number.isInteger(value) && value >= 0 && value < 2 ** 32 ? value : 0;
}

/** A citation as an upstream wrote it. */
export function parseAnnotation(value: JsonObject): Annotation {
  const citation = value['url_citation'];
  if (
    value['type'] === 'url_citation' &&
    typeof citation === 'object' &&
    citation !== null &&
    !Array.isArray(citation)
  ) {
    const { url, title, start_index: start, end_index: end } = citation;
    if (typeof url === 'string') {
      const fields = {
        url,
        title: typeof title === 'string' ? title : '',
        startIndex: indexOf(start),
        endIndex: indexOf(end),
      };
      return { $typeName: 'tollgate.v1.Annotation', annotation: { case: 'urlCitation', value: urlCitation(fields) } };
    }
  }
  const other = extraOf(Protocol.CHAT, JSON.stringify(value));
  return { $typeName: 'tollgate.v1.Annotation', annotation: { case: 'other', value: other } };
}
