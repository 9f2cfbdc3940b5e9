import { type FilePart, type MediaSource, type Part, Protocol } from '../../gen/tollgate/v1/content_pb.ts';
import type { GenerateRequest } from '../../gen/tollgate/v1/request_pb.ts';
import type { JsonObject } from '../codec.ts';
import { imageTypeIn } from '../image-type.ts';
import { type Drops, unsupportedContent, unsupportedPart } from '../drops.ts';
import { extras } from './extras.ts';

/** Encodes parts as content blocks. Sources: docs/interfaces/README.md "Translation", "Refused, listed or dropped"; translation cases ME-01 to ME-11, RO-14. */

/** Returns the block of a part, without its cache hint and its extra members. Throws `unsupported_parameter`. */
export function encodePart(part: Part, request: GenerateRequest, drops: Drops): JsonObject {
  const { content } = part;
  switch (content.case) {
    case 'text': {
      const citations = content.value.annotations.flatMap(({ annotation }) =>
        annotation.case === 'other' ? (extras.own(annotation.value) ?? []) : [],
      );
      const { text } = content.value;
      return { type: 'text', text, ...(citations.length === 0 ? {} : { citations }) };
    }
    case 'refusal':
      return { type: 'text', text: content.value.text };
    case 'image':
      return { type: 'image', source: imageSource(content.value.source, request) };
    case 'file':
      return documentBlock(content.value, request, drops);
    case 'searchResult':
      return JSON.parse(content.value.json) as JsonObject;
    case 'toolReference':
      return { type: 'tool_reference', tool_name: content.value.name };
    default: {
      const own = content.case === 'unknown' ? extras.own(content.value) : undefined;
      if (own === undefined) throw unsupportedPart(part, request);
      return own;
    }
  }
}

const imageTypes = new Set(['image/jpeg', 'image/png', 'image/gif', 'image/webp']);

function imageSource(source: MediaSource | undefined, request: GenerateRequest): JsonObject {
  if (source?.source.case === 'url') return { type: 'url', url: source.source.value };
  if (source?.source.case === 'fileId') return fileSource(source.source.value, request, 'images by file id');
  if (source?.source.case !== 'base64') throw unsupportedContent(request, 'images without a source');
  const data = source.source.value;
  const declared = source.mediaType === 'image/jpg' ? 'image/jpeg' : source.mediaType;
  const mediaType = imageTypeIn(data) ?? declared;
  if (!imageTypes.has(mediaType)) throw unsupportedContent(request, `images of type ${mediaType}`);
  return { type: 'base64', media_type: mediaType, data };
}

/** Returns the source for a file id. Throws if the client uses another protocol, because only Messages clients have file ids of a Messages provider. */
function fileSource(id: string, request: GenerateRequest, what: string): JsonObject {
  const { source } = request;
  if (source !== undefined && source.protocol !== Protocol.MESSAGES) throw unsupportedContent(request, what);
  return { type: 'file', file_id: id };
}

function documentBlock(file: FilePart, request: GenerateRequest, drops: Drops): JsonObject {
  const { filename, title, context, citations } = file;
  const name = title === '' ? filename : title;
  if (citations === true && request.source?.protocol === Protocol.CHAT) drops.add('citations');
  return {
    type: 'document',
    source: documentSource(file, request),
    ...(name === '' ? {} : { title: name }),
    ...(context === '' ? {} : { context }),
    ...(citations === undefined ? {} : { citations: { enabled: citations } }),
  };
}

function documentSource({ source, filename }: FilePart, request: GenerateRequest): JsonObject {
  switch (source?.source.case) {
    case 'url':
      return { type: 'url', url: source.source.value };
    case 'fileId':
      return fileSource(source.source.value, request, 'files by id');
    case 'text':
      return { type: 'text', media_type: 'text/plain', data: source.source.value };
    case 'base64': {
      const data = source.source.value;
      const { mediaType } = source;
      // "%PDF" in base64.
      if (mediaType === 'application/pdf' || data.startsWith('JVBERi')) {
        return { type: 'base64', media_type: 'application/pdf', data };
      }
      if (mediaType.startsWith('text/')) {
        return { type: 'text', media_type: 'text/plain', data: Buffer.from(data, 'base64').toString('utf8') };
      }
      throw unsupportedContent(request, `files of type ${mediaType === '' ? `unknown (${filename})` : mediaType}`);
    }
    default:
      throw unsupportedContent(request, 'files without a source');
  }
}
