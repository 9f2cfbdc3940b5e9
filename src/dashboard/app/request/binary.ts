/** Binary data that is in JSON as base64. */
export interface Binary {
  /** The media type; '' if it is not known. */
  readonly type: string;
  readonly bytes: number;
  readonly base64: string;
}

/** Texts shorter than this are shown as they are. */
const lengthMin = 256;
const imagesMax = 8;
/** The beginnings of image types in base64. Only images of these types are shown, because others, such as SVG, can run scripts. */
const beginnings: readonly (readonly [string, string])[] = [
  ['iVBORw0KGgo', 'image/png'],
  ['/9j/', 'image/jpeg'],
  ['R0lGOD', 'image/gif'],
  ['UklGR', 'image/webp'],
];

/** Returns the binary data in a text that is base64 or a data URL; undefined if it is neither. */
export function readBinary(text: string): Binary | undefined {
  if (text.length < lengthMin) return undefined;
  const [, named = '', base64 = ''] = /^(?:data:([\w.+/-]*)[^,]*;base64,)?([A-Za-z0-9+/_-]+={0,2})$/.exec(text) ?? [];
  if (base64 === '') return undefined;
  const [, found] = beginnings.find(([start]) => base64.startsWith(start)) ?? [];
  // WebP begins like any RIFF file, which can also be audio.
  const type = found === 'image/webp' && named !== '' ? named : (found ?? named);
  const padding = base64.endsWith('==') ? 2 : base64.endsWith('=') ? 1 : 0;
  return { type, bytes: Math.floor(((base64.length - padding) * 3) / 4), base64 };
}

/** Returns the images in a JSON value, at most eight. */
export function findImages(value: unknown, found: Binary[] = []): readonly Binary[] {
  if (found.length >= imagesMax) return found;
  if (typeof value === 'string') {
    const binary = readBinary(value);
    if (binary !== undefined && beginnings.some(([, type]) => type === binary.type)) found.push(binary);
  } else if (typeof value === 'object' && value !== null) {
    for (const member of Object.values(value)) findImages(member, found);
  }
  return found;
}

/** Returns the bytes of base64, also in its URL-safe form; undefined if the text is not base64. */
export function decodeBase64(base64: string): Uint8Array<ArrayBuffer> | undefined {
  try {
    return Uint8Array.from(atob(base64.replaceAll('-', '+').replaceAll('_', '/')), each => each.charCodeAt(0));
  } catch {
    return undefined;
  }
}
