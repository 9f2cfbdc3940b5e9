import { createHash } from 'node:crypto';
import type { ImagePart } from '../gen/tollgate/v1/content_pb.ts';
import { decodeBase64, parseDataUrl } from '../generation/media.ts';
import { UpstreamFailure } from '../generation/upstream.ts';
import { yieldToOthers } from './pace.ts';
import type { PlacedImage } from './prompt.ts';

/** The first bytes of the formats that providers accept. Only these are decoded. */
const signatures: readonly (readonly [format: string, at: number, bytes: string])[] = [
  ['PNG', 0, '89504e470d0a1a0a'],
  ['JPEG', 0, 'ffd8ff'],
  ['GIF', 0, '47494638'],
  ['WebP', 8, '57454250'],
];

/** The most pixels of an image that is decoded: 50 million, twice as many as a camera's. */
const pixelsMax = 50_000_000;
/** The most cached descriptions. They are cached because every turn of a conversation contains its images again. */
const descriptionsMax = 256;
/** The side of the thumbnail whose colours are counted, in pixels. */
const thumbnail = 48;

/** Colours by name, as red, green and blue. */
const colours: readonly (readonly [name: string, red: number, green: number, blue: number])[] = [
  ['black', 0, 0, 0],
  ['white', 255, 255, 255],
  ['grey', 128, 128, 128],
  ['red', 220, 20, 30],
  ['orange', 255, 150, 20],
  ['yellow', 250, 230, 30],
  ['green', 30, 160, 50],
  ['teal', 20, 150, 150],
  ['cyan', 30, 220, 240],
  ['blue', 30, 60, 220],
  ['purple', 130, 40, 170],
  ['magenta', 235, 40, 220],
  ['pink', 250, 170, 190],
  ['brown', 130, 80, 40],
];

function colourName(red: number, green: number, blue: number): string {
  let nearest = 'grey';
  let least = Infinity;
  for (const [name, r, g, b] of colours) {
    const distance = (r - red) ** 2 + (g - green) ** 2 + (b - blue) ** 2;
    if (distance < least) [nearest, least] = [name, distance];
  }
  return nearest;
}

/** Returns the most frequent colour of RGBA pixels: colours are divided into 4,096 cells, and the mean of the fullest cell is taken. */
function dominantColour(pixels: Uint8Array): [red: number, green: number, blue: number] {
  const cells = new Map<number, [count: number, red: number, green: number, blue: number]>();
  for (let at = 0; at < pixels.length; at += 4) {
    const [red = 0, green = 0, blue = 0] = pixels.subarray(at, at + 3);
    const cell = ((red >> 4) << 8) | ((green >> 4) << 4) | (blue >> 4);
    const [count, r, g, b] = cells.get(cell) ?? [0, 0, 0, 0];
    cells.set(cell, [count + 1, r + red, g + green, b + blue]);
  }
  let best: [number, number, number, number] = [0, 0, 0, 0];
  for (const cell of cells.values()) if (cell[0] > best[0]) best = cell;
  const [count, red, green, blue] = best;
  const mean = (sum: number): number => Math.round(sum / Math.max(1, count));
  return [mean(red), mean(green), mean(blue)];
}

function refuse(number: number, why: string, cause?: unknown): UpstreamFailure {
  return new UpstreamFailure('status', {
    status: 400,
    message: `Image ${number} of the conversation can't be read: ${why}.`,
    ...(cause === undefined ? {} : { cause }),
  });
}

function detectFormat(bytes: Buffer): string | undefined {
  return signatures.find(([, at, hex]) => bytes.toString('hex', at, at + hex.length / 2) === hex)?.[0];
}

async function look(bytes: Buffer, format: string): Promise<string> {
  const { default: sharp } = await import('sharp');
  const image = sharp(bytes, { limitInputPixels: pixelsMax, failOn: 'error' });
  const { width, height, pages = 1 } = await image.metadata();
  const pixels = await image
    .resize(thumbnail, thumbnail, { fit: 'fill', kernel: 'nearest' })
    .flatten({ background: '#ffffff' })
    .toColourspace('srgb')
    .ensureAlpha()
    .raw({ depth: 'uchar' })
    .toBuffer();
  const [red, green, blue] = dominantColour(pixels);
  const code = Buffer.from([red, green, blue]).toString('hex');
  const kind = pages > 1 ? `${format} of ${pages} frames` : format;
  return `${width} × ${height} pixels (${kind}), mostly ${colourName(red, green, blue)} (#${code})`;
}

/** How many bytes are hashed before others get their turn: about 4 ms. */
const hashedBytes = 4 * 1024 ** 2;

async function hashInTurns(bytes: Buffer): Promise<string> {
  const hash = createHash('sha256');
  for (let at = 0; at < bytes.length; at += hashedBytes) {
    if (bytes.length > hashedBytes) await yieldToOthers();
    hash.update(bytes.subarray(at, at + hashedBytes));
  }
  return hash.digest('base64url');
}

/** Describes images: their size and most frequent colour. */
export class Sight {
  /** The descriptions by the SHA-256 of the image, least recently used first. */
  readonly #seen = new Map<string, string>();

  /**
   * Returns one sentence for each image that is new in the conversation. Images with a URL or a file id are not fetched.
   * Throws `UpstreamFailure` (status 400) if an image, new or not, can't be decoded; it names the first such image.
   */
  async describe(images: readonly PlacedImage[]): Promise<string[]> {
    const sentences: string[] = [];
    for (const { image, number, isNew } of images) {
      if (number > 1) await yieldToOthers();
      const sentence = await this.#sentence(image, number);
      if (isNew) sentences.push(sentence);
    }
    return sentences;
  }

  async #sentence(image: ImagePart, number: number): Promise<string> {
    const source = image.source?.source;
    if (source?.case === 'url') {
      const inline = parseDataUrl(source.value);
      if (inline === undefined) return `Image ${number} is a URL, which this model does not fetch.`;
      return this.#decode(inline.base64, number);
    }
    if (source?.case === 'base64') return this.#decode(source.value, number);
    return `Image ${number} is a stored file; this model can't open it.`;
  }

  async #decode(base64: string, number: number): Promise<string> {
    const bytes = decodeBase64(base64);
    if (bytes === undefined) throw refuse(number, 'it is not valid base64');
    const format = detectFormat(bytes);
    if (format === undefined) throw refuse(number, 'it is not a PNG, JPEG, GIF or WebP');
    const key = await hashInTurns(bytes);
    const seen = this.#seen.get(key);
    this.#seen.delete(key);
    try {
      const description = seen ?? (await look(bytes, format));
      this.#seen.set(key, description);
      const [oldest] = this.#seen.keys();
      if (this.#seen.size > descriptionsMax && oldest !== undefined) this.#seen.delete(oldest);
      return `Image ${number} is ${description}.`;
    } catch (cause) {
      throw refuse(number, `it is not a complete ${format}, or too large`, cause);
    }
  }
}
