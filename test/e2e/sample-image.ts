import sharp from 'sharp';

/** A PNG of one colour. */
export function picture(width: number, height: number, colour: string): Promise<Buffer> {
  return sharp({ create: { width, height, channels: 3, background: colour } })
    .png()
    .toBuffer();
}

/** The same as a data URL. */
export async function pictureUrl(width: number, height: number, colour: string): Promise<string> {
  return `data:image/png;base64,${(await picture(width, height, colour)).toString('base64')}`;
}
