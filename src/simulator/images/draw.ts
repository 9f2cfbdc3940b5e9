import type { Sharp } from 'sharp';
import type { ImageRequest } from '../../gen/tollgate/v1/image_pb.ts';
import { defaultImageSize, type ImageSize, parseImageSize, shrunkInto } from '../../generation/images/image-size.ts';
import type { ImageType } from '../../generation/images/image-type.ts';
import { pngSize } from '../../generation/images/png.ts';
import { yieldToOthers } from '../pace.ts';
import { chooseBlur, sceneSvg } from './scene.ts';

/** One image to draw. */
export interface Sketch {
  readonly request: ImageRequest;
  /** The prompt without its steering lines. */
  readonly prompt: string;
  /** The index of the image within the request, from 0. */
  readonly index: number;
  /** The largest size that the model can draw. */
  readonly largest: ImageSize | undefined;
}

/** Raw pixels, four bytes each: red, green, blue, opacity. */
interface Pixels {
  readonly data: Buffer;
  readonly size: ImageSize;
}

const stepsByDefault = 30;
const guidanceByDefault = 7;
const strengthByDefault = 0.8;
/** The most pixels of an input image. The core has already refused larger ones. */
const pixelsMax = 50_000_000;
/** The number of pixels that are blended before others get their turn: about a millisecond. */
const pixelsInOneGo = 65_536;

async function loadSharp() {
  const { default: sharp } = await import('sharp');
  // One thread per image, because several are drawn at once, and other work needs the CPU, too.
  sharp.concurrency(1);
  return sharp;
}

/**
 * Draws an image, or edits the request's first one, in the requested format. Throws the signal's reason when it is
 * aborted.
 */
export async function drawSketch(
  sketch: Sketch,
  format: { readonly type: ImageType },
  signal: AbortSignal,
): Promise<Buffer> {
  signal.throwIfAborted();
  const sharp = await loadSharp();
  const { request } = sketch;
  const [edited, ...references] = request.images;
  const scene = await paint(sketch, edited, references[0]);
  signal.throwIfAborted();
  if (edited === undefined) return encode(scene, format.type);
  const { data, size } = await blended(sketch, await readPixels(scene), { edited, signal });
  signal.throwIfAborted();
  return encode(sharp(data, { raw: { ...size, channels: 4 } }), format.type);
}

function encode(image: Sharp, type: ImageType): Promise<Buffer> {
  if (type === 'image/jpeg') return image.flatten({ background: '#ffffff' }).jpeg({ quality: 90 }).toBuffer();
  if (type === 'image/webp') return image.webp({ quality: 90 }).toBuffer();
  return image.png({ compressionLevel: 6 }).toBuffer();
}

/** Returns the size of the image: the requested one, else that of the edited image, but at most the largest that the model can draw. */
function chooseSize({ request, largest }: Sketch, edited: Uint8Array | undefined): ImageSize {
  const own = edited === undefined ? undefined : pngSize(edited);
  return parseImageSize(request.size) ?? shrunkInto(own ?? defaultImageSize, largest);
}

async function paint(
  sketch: Sketch,
  edited: Uint8Array | undefined,
  reference: Uint8Array | undefined,
): Promise<Sharp> {
  const sharp = await loadSharp();
  const { request, prompt, index } = sketch;
  const size = chooseSize(sketch, edited);
  const steps = request.steps ?? stepsByDefault;
  const svg = sceneSvg({
    prompt,
    negativePrompt: request.negativePrompt,
    seed: (request.seed ?? 0n) + BigInt(index),
    size,
    steps,
    guidance: Math.max(0, request.guidanceScale ?? guidanceByDefault),
    referenceHue: reference === undefined ? undefined : await measureHue(reference),
  });
  const painted = sharp(Buffer.from(svg), { limitInputPixels: false }).resize({ ...size, fit: 'fill' });
  const sigma = chooseBlur({ steps, size });
  return (sigma === 0 ? painted : painted.blur(sigma)).removeAlpha();
}

/** Returns the hue of an image's most frequent colour, in degrees. */
async function measureHue(image: Uint8Array): Promise<number> {
  const sharp = await loadSharp();
  const { dominant } = await sharp(image, { limitInputPixels: pixelsMax }).stats();
  const [red, green, blue] = [dominant.r / 255, dominant.g / 255, dominant.b / 255];
  const [most, least] = [Math.max(red, green, blue), Math.min(red, green, blue)];
  if (most === least) return 0;
  const spread = most - least;
  if (most === red) return (60 * ((green - blue) / spread) + 360) % 360;
  return most === green ? 60 * ((blue - red) / spread + 2) : 60 * ((red - green) / spread + 4);
}

async function readPixels(image: Sharp): Promise<Pixels> {
  const { data, info } = await image
    .toColourspace('srgb')
    .ensureAlpha()
    .raw({ depth: 'uchar' })
    .toBuffer({ resolveWithObject: true });
  return { data, size: { width: info.width, height: info.height } };
}

/**
 * Blends the scene into the edited image where the mask is transparent; `strength` says how much. All other pixels stay as they
 * are.
 */
async function blended(
  { request }: Sketch,
  scene: Pixels,
  { edited, signal }: { readonly edited: Uint8Array; readonly signal: AbortSignal },
): Promise<Pixels> {
  const sharp = await loadSharp();
  const fitted = (file: Uint8Array): Sharp =>
    sharp(file, { limitInputPixels: pixelsMax }).resize({ ...scene.size, fit: 'fill' });
  const { data } = await readPixels(fitted(edited));
  const mask = request.mask === undefined ? undefined : (await readPixels(fitted(request.mask))).data;
  const strength = request.strength ?? strengthByDefault;
  for (let at = 0; at < data.length; at += 4) {
    if (at % (pixelsInOneGo * 4) === 0) {
      await yieldToOthers();
      signal.throwIfAborted();
    }
    const share = mask === undefined ? strength : strength * (1 - (mask[at + 3] ?? 255) / 255);
    if (share === 0) continue;
    for (let channel = at; channel < at + 4; channel += 1) {
      const old = data[channel] ?? 0;
      data[channel] = Math.round(old + ((scene.data[channel] ?? 0) - old) * share);
    }
  }
  return { data, size: scene.size };
}
