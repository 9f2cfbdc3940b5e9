import type { Annotation } from '../../gen/tollgate/v1/content_pb.ts';
import type { JsonObject } from '../codec.ts';
import { urlAnnotation } from '../content.ts';
import { countIn, defined, textIn } from '../json.ts';
import { extras } from './extras.ts';

const known = new Set(['type', 'url', 'title', 'start_index', 'end_index']);

/**
 * Converts citations to the form of Responses and back. Citations of URLs exist in every protocol; others are sent only to Responses clients. Source:
 * docs/interfaces/README.md "Translation"; translation case SV-02.
 */

/** Returns a citation in the form of Responses; undefined if Responses can't express it. */
export function renderAnnotation({ annotation }: Annotation): JsonObject | undefined {
  if (annotation.case === 'urlCitation') {
    const { url, title, startIndex, endIndex } = annotation.value;
    const members = extras.members(annotation.value.extra);
    return { ...members, type: 'url_citation', url, title, start_index: startIndex, end_index: endIndex };
  }
  return annotation.case === 'other' ? extras.own(annotation.value) : undefined;
}

/** Parses a citation that a client or an upstream wrote. */
export function parseAnnotation(value: JsonObject): Annotation {
  const { type, url, title, start_index: start, end_index: end } = value;
  if (type === 'url_citation' && typeof url === 'string') {
    const place = { startIndex: countIn(start) ?? 0, endIndex: countIn(end) ?? 0 };
    return urlAnnotation({ url, title: textIn(title), ...place, ...defined({ extra: extras.unknown(value, known) }) });
  }
  return extras.annotation(value);
}
