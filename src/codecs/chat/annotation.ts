import type { Annotation } from '../../gen/tollgate/v1/content_pb.ts';
import type { JsonObject } from '../codec.ts';
import { urlAnnotation } from '../content.ts';
import { countIn, objectIn, textIn } from '../json.ts';
import { mergeUnknown, findUnknownMembers, makeShape } from '../unknown-members.ts';
import { extras } from './extras.ts';

const shape = makeShape('type', { url_citation: makeShape('url title start_index end_index') });

/** Converts citations to Chat's form and back. Citations of URLs exist in every protocol; any other citation of a Chat upstream is sent only to Chat clients. Source: docs/interfaces/README.md "Translation". */

/** Returns a citation in Chat's form; undefined if Chat can't express it. */
export function renderAnnotation({ annotation }: Annotation): JsonObject | undefined {
  if (annotation.case === 'urlCitation') {
    const { url, title, startIndex, endIndex } = annotation.value;
    const fields = { type: 'url_citation', url_citation: { url, title, start_index: startIndex, end_index: endIndex } };
    return mergeUnknown(fields, extras.members(annotation.value.extra));
  }
  return annotation.case === 'other' ? extras.own(annotation.value) : undefined;
}

/** Parses a citation of a Chat upstream. */
export function parseAnnotation(value: JsonObject): Annotation {
  const { url, title, start_index: start, end_index: end } = objectIn(value['url_citation']) ?? {};
  if (value['type'] !== 'url_citation' || typeof url !== 'string') return extras.annotation(value);
  const place = { startIndex: countIn(start) ?? 0, endIndex: countIn(end) ?? 0 };
  const rest = findUnknownMembers(value, shape);
  return urlAnnotation({
    url,
    title: textIn(title),
    ...place,
    ...(rest === undefined ? {} : { extra: extras.of(rest) }),
  });
}
