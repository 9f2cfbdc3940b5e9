/**
 * The formats of delivered images: media type, file extension, and the bytes (`signature`, in hex) that a file has at offset `at`. Source: docs/interfaces/images.md "Image URLs".
 */
const formats = [
  { type: 'image/png', extension: 'png', at: 0, signature: '89504e470d0a1a0a' },
  { type: 'image/webp', extension: 'webp', at: 8, signature: '57454250' },
  { type: 'image/jpeg', extension: 'jpeg', at: 0, signature: 'ffd8ff' },
] as const;

/** The media type of a delivered image. */
export type ImageType = (typeof formats)[number]['type'];

/** The file extension of a delivered image. */
export type ImageExtension = (typeof formats)[number]['extension'];

/** Detects the media type of a file from its first bytes; undefined if no format matches. */
export function detectImageType(bytes: Uint8Array): ImageType | undefined {
  return formats.find(({ at, signature }) => {
    const end = at + signature.length / 2;
    return Buffer.from(bytes.subarray(at, end)).toString('hex') === signature;
  })?.type;
}

/** Returns the file extension of a media type. */
export function fileExtension(type: ImageType): ImageExtension {
  return formats.find(format => format.type === type)?.extension ?? 'png';
}

/** Returns the media type of a file extension; undefined if no delivered image has that extension. */
export function parseExtension(extension: string): ImageType | undefined {
  return formats.find(format => format.extension === extension)?.type;
}
