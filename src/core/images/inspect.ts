import type { ImageRequest } from '../../gen/tollgate/v1/image_pb.ts';
import { imageBytesMax, invalidImageField } from '../../generation/images/check-image-request.ts';
import { type ImageSize, imageSizeText } from '../../generation/images/image-size.ts';
import { pngSize } from '../../generation/images/png.ts';
import { Semaphore } from '../../lib/semaphore.ts';

/** The most pixels of an image: 16 times a usual image. A small file can claim to have thousands of times more. */
const pixelsMax = 4096 * 4096;
/** How many images are decoded at once; each takes up to 64 MB of memory. */
const decodedAtOnce = 2;
/** How long a file waits to be decoded: as long as a request may run. */
const waitMaxMs = 3_600_000;

const decoding = new Semaphore({ slots: decodedAtOnce, waitersMax: Infinity, waitMs: waitMaxMs });

/**
 * Checks what the files of an edit declare: that they are PNGs, smaller than 4 MB and with at most 4096 × 4096 pixels, and that the mask has the size of the first image. Reads only their first bytes. Throws `validation_error` with the name of the field. Source:
 * docs/interfaces/images.md "Edits".
 */
export function checkFiles({ images, mask }: ImageRequest): void {
  const claimed = images.map((file, index) => claimedSize(file, `images.${index}`));
  const [first] = claimed;
  if (mask === undefined) return;
  const size = claimedSize(mask, 'mask');
  if (first !== undefined && (size.width !== first.width || size.height !== first.height)) {
    throw invalidImageField('mask', `is ${imageSizeText(size)}, but the first image is ${imageSizeText(first)}`);
  }
}

/**
 * Decodes the files of an edit fully, those of several accounts in rotation. Call it only after the admission, because it can take seconds. Throws `validation_error` with the name of the first damaged file; if the signal is aborted, its reason.
 */
export async function decodeFiles(
  { images, mask }: ImageRequest,
  accountId: number,
  signal: AbortSignal,
): Promise<void> {
  for (const [index, file] of images.entries()) await decode(file, `images.${index}`, { accountId, signal });
  if (mask !== undefined) await decode(mask, 'mask', { accountId, signal });
}

/** Checks the size that a file declares, without decoding it. */
function claimedSize(file: Uint8Array, param: string): ImageSize {
  if (file.length >= imageBytesMax) throw invalidImageField(param, 'must be smaller than 4 MB');
  const size = pngSize(file);
  if (size === undefined) throw invalidImageField(param, 'is not a PNG');
  if (size.width * size.height > pixelsMax) {
    throw invalidImageField(param, `is ${imageSizeText(size)}, which is more than ${pixelsMax} pixels`);
  }
  return size;
}

async function decode(
  file: Uint8Array,
  param: string,
  { accountId, signal }: { readonly accountId: number; readonly signal: AbortSignal },
): Promise<void> {
  const { default: sharp } = await import('sharp');
  const release = await decoding.acquire(signal, accountId);
  try {
    // Reduces the image to one pixel, the mean of all, so that every row is read and none is kept.
    await sharp(file, { limitInputPixels: pixelsMax, failOn: 'error', sequentialRead: true })
      .resize(1, 1, { fit: 'fill' })
      .raw()
      .toBuffer();
  } catch {
    // The decoder's message would not help the caller.
    throw invalidImageField(param, 'is a damaged PNG that can’t be decoded');
  } finally {
    release?.();
  }
}
