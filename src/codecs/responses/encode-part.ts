import { type FilePart, type Part, Protocol } from '../../gen/tollgate/v1/content_pb.ts';
import type { GenerateRequest } from '../../gen/tollgate/v1/request_pb.ts';
import type { JsonObject } from '../codec.ts';
import { type Drops, unsupportedContent, unsupportedPart } from '../drops.ts';
import { searchResultText } from '../search-result.ts';
import { renderAnnotation } from './annotation.ts';
import { extras } from './extras.ts';
import { renderInputPart } from './render-part.ts';

/** Encodes parts for a Responses upstream. Sources: docs/interfaces/README.md "Translation", "Refused, listed or dropped"; translation cases ME-05, ME-07, ME-10. */

/** Encodes a part of earlier model output. Throws `unsupported_parameter`. */
export function encodeOutputPart(part: Part, request: GenerateRequest): JsonObject {
  const { content, extra } = part;
  if (content.case === 'refusal') return { type: 'refusal', refusal: content.value.text, ...extras.members(extra) };
  if (content.case !== 'text') {
    const own = content.case === 'unknown' ? extras.own(content.value) : undefined;
    if (own === undefined) throw unsupportedPart(part, request, ' in messages of the assistant');
    return own;
  }
  const { text, annotations } = content.value;
  const cited = annotations.map(renderAnnotation).filter(each => each !== undefined);
  return { type: 'output_text', text, ...(cited.length === 0 ? {} : { annotations: cited }), ...extras.members(extra) };
}

/** Encodes a part of a message that the model did not write. Throws `unsupported_parameter`. */
export function encodeInputPart(part: Part, request: GenerateRequest, drops: Drops): JsonObject {
  const { content } = part;
  if (isForeign(request)) {
    if (content.case === 'audio' || content.case === 'video') throw unsupportedContent(request, content.case);
    if (isByFileId(part)) throw unsupportedContent(request, 'files of another provider by id');
  }
  if (content.case === 'searchResult') return { type: 'input_text', text: searchResultText(content.value.json) };
  if (content.case === 'file') {
    if (content.value.citations === true) drops.add('citations');
    const text = readFileText(content.value);
    if (text !== undefined) return { type: 'input_text', text };
  }
  if (content.case === 'text') {
    return { type: 'input_text', text: content.value.text, ...extras.members(part.extra) };
  }
  const rendered = renderInputPart(part);
  if (rendered === undefined) throw unsupportedPart(part, request);
  return rendered;
}

/** Returns whether the request came from a client of another interface. */
export function isForeign({ source }: GenerateRequest): boolean {
  return source !== undefined && source.protocol !== Protocol.RESPONSES;
}

function isByFileId({ content }: Part): boolean {
  if (content.case !== 'image' && content.case !== 'file') return false;
  return content.value.source?.source.case === 'fileId';
}

/** Returns the text of a plain-text document, with its title and context; undefined if the file is not one. */
function readFileText({ source, filename, title, context }: FilePart): string | undefined {
  if (source?.source.case !== 'text') return undefined;
  const lines = [filename === '' ? title : filename, context, source.source.value];
  return lines.filter(line => line !== '').join('\n\n');
}
