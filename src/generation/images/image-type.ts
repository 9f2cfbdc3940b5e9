/** The formats in which pictures are delivered, by the ending of their files. Source: decisions §5. */
const formats = [
  { type: 'image/png', ending: 'png', at: 0, signature: '89504e470d0a1a0a' },
  { type: 'image/webp', ending: 'webp', at: 8, signature: '57454250' },
  { type: 'image/jpeg', ending: 'jpeg', at: 0, signature: 'ffd8ff' },
] as const;

/** The media type of a delivered picture. */
export type ImageType = (typeof formats)[number]['type'];

/** The ending of a file with such a picture. */
export type ImageEnding = (typeof formats)[number]['ending'];

/** What a file is by its first bytes; undefined where it is none of the formats. */
export function imageTypeOf(bytes: Uint8Array): ImageType | undefined {
  return formats.find(({ at, signature }) => {
    const end = at + signature.length / 2;
    return Buffer.from(bytes.subarray(at, end)).toString('hex') === signature;
  })?.type;
}

/** The ending of a file of that type. */
export function endingOf(type: ImageType): ImageEnding {
  return formats.find(format => format.type === type)?.ending ?? 'png';
}

/** The type of a file with that ending; undefined where no picture has it. */
export function typeOfEnding(ending: string): ImageType | undefined {
  return formats.find(format => format.ending === ending)?.type;
}
