import sharp from 'sharp';

/** Makes a PNG of one colour. */
export function makePng(width: number, height: number, colour: string): Promise<Buffer> {
  return sharp({ create: { width, height, channels: 3, background: colour } })
    .png()
    .toBuffer();
}

/** Makes a PNG of one colour, as a data URL. */
export async function makePngUrl(width: number, height: number, colour: string): Promise<string> {
  return `data:image/png;base64,${(await makePng(width, height, colour)).toString('base64')}`;
}
