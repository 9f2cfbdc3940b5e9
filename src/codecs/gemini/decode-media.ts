import type { MediaSource, Part } from '../../gen/tollgate/v1/content_pb.ts';
import * as make from '../content.ts';
import { invalidField } from '../schema.ts';
import type { GeminiClientPart } from './request-schema.ts';

/** Decodes images, files, sound and video of a part. Source: docs/interfaces/gemini.md "Request". */

/** Returns the content of a part that has bytes or an address; undefined if it has neither. Throws `validation_error`. */
export function decodeMedia(
  { inlineData, fileData }: Pick<GeminiClientPart, 'inlineData' | 'fileData'>,
  path: string,
): Part['content'] | undefined {
  if (inlineData != null) {
    const base64 = toStandard(inlineData.data);
    if (!make.isBase64(base64)) throw invalidField(`${path}.inlineData.data`, 'must be base64');
    const type = (inlineData.mimeType ?? '').toLowerCase();
    return byType(make.mediaSource({ case: 'base64', value: base64 }, type), type);
  }
  if (fileData == null) return undefined;
  const { fileUri, mimeType } = fileData;
  const type = (mimeType ?? '').toLowerCase();
  // Addresses of Google's storage and files can be read only by Google: other encoders refuse the id.
  const source = isPublic(fileUri)
    ? make.mediaSource({ case: 'url', value: fileUri }, type)
    : make.mediaSource({ case: 'fileId', value: fileUri }, type);
  return byType(source, type === '' ? guessType(fileUri) : type);
}

/** Returns base64 in the standard alphabet: Google's services accept that of URLs too. */
function toStandard(data: string): string {
  return data.includes('-') || data.includes('_') ? data.replaceAll('-', '+').replaceAll('_', '/') : data;
}

function isPublic(address: string): boolean {
  if (!/^https?:\/\/[^/]/i.test(address)) return false;
  return !/^https:\/\/[a-z0-9-]*generativelanguage\.googleapis\.com\//i.test(address);
}

function guessType(address: string): string {
  if (/^https:\/\/(?:www\.)?(?:youtube\.com|youtu\.be)\//i.test(address)) return 'video/*';
  return /\.(?:png|jpe?g|gif|webp)(?:\?|$)/i.test(address) ? 'image/*' : '';
}

function byType(source: MediaSource, type: string): Part['content'] {
  if (type.startsWith('image/')) return make.imageContent(source);
  if (type.startsWith('audio/')) {
    const format = type.slice('audio/'.length).replace(/^(?:mpeg|x-)/, match => (match === 'mpeg' ? 'mp3' : ''));
    return { case: 'audio', value: { $typeName: 'tollgate.v1.AudioPart', source, format } };
  }
  if (type.startsWith('video/')) return { case: 'video', value: { $typeName: 'tollgate.v1.VideoPart', source } };
  const named = { filename: '', title: '', context: '' };
  return { case: 'file', value: { $typeName: 'tollgate.v1.FilePart', source, ...named } };
}
