import { type FilePart, type MediaSource, type Part } from '../../gen/tollgate/v1/content_pb.ts';
import type { GenerateRequest } from '../../gen/tollgate/v1/request_pb.ts';
import { imageTypeIn } from '../image-type.ts';
import { type Drops, unsupportedContent } from '../drops.ts';
import { searchResultText } from '../search-result.ts';
import type { GeminiPart } from './wire.ts';

/** Encodes the parts of a message or a tool result. Sources: docs/providers.md "The Gemini protocol"; docs/interfaces/README.md "Translation", "Refused, listed or dropped"; translation cases ME-01, ME-04, ME-05, ME-11. */

/** Returns the part; undefined for an empty text. Throws `unsupported_parameter`. */
export function encodePart({ content }: Part, request: GenerateRequest, drops: Drops): GeminiPart | undefined {
  switch (content.case) {
    case 'text':
    case 'refusal':
      return content.value.text === '' ? undefined : { text: content.value.text };
    case 'image':
      return mediaPart(content.value.source, imageType(content.value.source), request);
    case 'audio': {
      const { source, format } = content.value;
      return mediaPart(source, source?.mediaType || `audio/${format || 'wav'}`, request);
    }
    case 'video':
      return mediaPart(content.value.source, content.value.source?.mediaType || 'video/mp4', request);
    case 'file':
      return filePart(content.value, request, drops);
    case 'searchResult':
      return { text: searchResultText(content.value.json) };
    default:
      throw unsupportedContent(request, `parts of type ${content.case ?? 'none'}`);
  }
}

function mediaPart(source: MediaSource | undefined, mimeType: string, request: GenerateRequest): GeminiPart {
  switch (source?.source.case) {
    case 'base64':
      return { inlineData: { mimeType, data: source.source.value } };
    case 'url':
      return { fileData: { fileUri: source.source.value, ...(mimeType === '' ? {} : { mimeType }) } };
    case 'fileId':
      // Only the provider that issued an id of a file knows it.
      throw unsupportedContent(request, 'files by the id of another provider');
    default:
      throw unsupportedContent(request, 'a file without a source');
  }
}

const imageExtensions: readonly (readonly [end: RegExp, mediaType: string])[] = [
  [/\.jpe?g$/i, 'image/jpeg'],
  [/\.png$/i, 'image/png'],
  [/\.gif$/i, 'image/gif'],
  [/\.webp$/i, 'image/webp'],
];

/** Returns the media type of an image by its bytes, its declared type or the extension in its URL. If all are unknown: '' for a URL, `image/png` for base64. */
function imageType(source: MediaSource | undefined): string {
  const declared = source?.mediaType === 'image/jpg' ? 'image/jpeg' : (source?.mediaType ?? '');
  if (source?.source.case === 'base64') {
    const { value } = source.source;
    return imageTypeIn(value) ?? (declared || 'image/png');
  }
  const path = source?.source.case === 'url' ? source.source.value.replace(/[?#].*$/s, '') : '';
  return declared || (imageExtensions.find(([end]) => end.test(path))?.[1] ?? '');
}

function filePart(file: FilePart, request: GenerateRequest, drops: Drops): GeminiPart {
  const { source, filename, title, context, citations } = file;
  if (citations === true) drops.add('citations');
  if (title !== '' || context !== '') drops.add(title === '' ? 'context' : 'title');
  if (source?.source.case === 'text') return { text: source.source.value };
  const isPdf = source?.source.case === 'base64' && source.source.value.startsWith('JVBERi');
  const declared = source?.mediaType ?? '';
  const type = declared === '' && (isPdf || /\.pdf$/i.test(filename)) ? 'application/pdf' : declared;
  if (type === '' && source?.source.case === 'base64') {
    throw unsupportedContent(request, `files of an unknown type${filename === '' ? '' : ` (${filename})`}`);
  }
  return mediaPart(source, type, request);
}
