/** Width and height in pixels, both at least 1. */
export interface ImageSize {
  readonly width: number;
  readonly height: number;
}

/** The default size of an image in the Images interface. */
export const defaultImageSize: ImageSize = { width: 1024, height: 1024 };

const sizePattern = /^([1-9]\d{0,4})x([1-9]\d{0,4})$/;

/** Reads `WIDTHxHEIGHT`; undefined if it is something else. */
export function parseImageSize(text: string): ImageSize | undefined {
  const [, width, height] = sizePattern.exec(text) ?? [];
  return width === undefined || height === undefined ? undefined : { width: Number(width), height: Number(height) };
}

/** Returns a size as `WIDTHxHEIGHT`. */
export function imageSizeText({ width, height }: ImageSize): string {
  return `${width}x${height}`;
}

/** Returns whether neither side is longer than that of the model's maximum; undefined: there is no maximum. */
export function fitsInto(size: ImageSize, largest: ImageSize | undefined): boolean {
  return largest === undefined || (size.width <= largest.width && size.height <= largest.height);
}

/** Returns the size if it fits, else the largest size of the same shape that fits. */
export function shrunkInto(size: ImageSize, largest: ImageSize | undefined): ImageSize {
  if (largest === undefined || fitsInto(size, largest)) return size;
  const scale = Math.min(largest.width / size.width, largest.height / size.height);
  const side = (length: number, most: number): number => Math.min(most, Math.max(1, Math.round(length * scale)));
  return { width: side(size.width, largest.width), height: side(size.height, largest.height) };
}
