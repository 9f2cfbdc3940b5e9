/** The first base64 digits of the accepted image formats. */
const starts: readonly (readonly [start: RegExp, mediaType: string])[] = [
  [/^\/9j\//, 'image/jpeg'],
  [/^iVBORw0KGgo/, 'image/png'],
  [/^R0lGOD/, 'image/gif'],
  [/^UklGR.{6}XRUJ/, 'image/webp'],
];

/**
 * Returns the type of an image by its first base64 digits, because the declared one may be wrong (translation case ME-01);
 * undefined if unknown.
 */
export function imageTypeIn(base64: string): string | undefined {
  return starts.find(([start]) => start.test(base64))?.[1];
}
