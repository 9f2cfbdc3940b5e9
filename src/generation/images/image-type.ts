/**
 * The formats in which images are delivered, by their file ending. Source: docs/interfaces/images.md "Addresses of
 * images".
 */
const formats = [
  { type: 'image/png', ending: 'png', at: 0, signature: '89504e470d0a1a0a' },
  { type: 'image/webp', ending: 'webp', at: 8, signature: '57454250' },
  { type: 'image/jpeg', ending: 'jpeg', at: 0, signature: 'ffd8ff' },
] as const;

/** The media type of a delivered image. */
export type ImageType = (typeof formats)[number]['type'];

/** The file ending of such an image. */
export type ImageExtension = (typeof formats)[number]['ending'];

/** Returns the type of a file by its first bytes; undefined if no format matches. */
export function detectImageType(bytes: Uint8Array): ImageType | undefined {
  return formats.find(({ at, signature }) => {
    const end = at + signature.length / 2;
    return Buffer.from(bytes.subarray(at, end)).toString('hex') === signature;
  })?.type;
}

/** The ending of a file of that type. */
export function fileExtension(type: ImageType): ImageExtension {
  return formats.find(format => format.type === type)?.ending ?? 'png';
}

/** Returns the type for a file ending; undefined if no image has it. */
export function parseExtension(ending: string): ImageType | undefined {
  return formats.find(format => format.ending === ending)?.type;
}
