/** An Images client without a library, so that tests see every header and byte. */
import sharp from 'sharp';
import type { Gateway } from '../gateway.ts';
import type { ChatError } from './chat-client.ts';

/** One image of an answer. */
export interface ImageEntry {
  readonly url?: string;
  readonly b64_json?: string;
  readonly revised_prompt: string;
}

/** The body of an image answer, or an error. */
export interface ImageBody {
  readonly created: number;
  readonly data: readonly ImageEntry[];
  readonly error: ChatError;
}

/** The body of a task, or an error. */
export interface TaskBody {
  readonly task_id: string;
  readonly object: string;
  readonly status: 'queued' | 'in_progress' | 'completed' | 'failed';
  readonly created: number;
  readonly model: string;
  readonly result: ImageBody | null;
  readonly error: ChatError | null;
}

/** A JSON answer. */
export interface ImageReply<Body> {
  readonly status: number;
  readonly headers: Headers;
  readonly body: Body;
}

/** Options of a request. */
export interface SendImage {
  /** The API key; absent: the gateway's first one. */
  readonly key?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal;
}

/** Posts JSON, or a form, to `/v1/images/PATH`. */
export async function postImages<Body = ImageBody>(
  { url, apiKey }: Pick<Gateway, 'url' | 'apiKey'>,
  path: 'generations' | 'edits',
  body: unknown,
  { key = apiKey, headers = {}, signal }: SendImage = {},
): Promise<ImageReply<Body>> {
  const isForm = body instanceof FormData;
  const answer = await fetch(`${url}/v1/images/${path}`, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${key}`,
      ...(isForm ? {} : { 'content-type': 'application/json' }),
      ...headers,
    },
    body: isForm ? body : typeof body === 'string' ? body : JSON.stringify(body),
    ...(signal === undefined ? {} : { signal }),
  });
  return { status: answer.status, headers: answer.headers, body: (await answer.json()) as Body };
}

/** Returns the current state of a task. */
export async function getTask(
  { url, apiKey }: Pick<Gateway, 'url' | 'apiKey'>,
  taskId: string,
  key = apiKey,
): Promise<ImageReply<TaskBody>> {
  const answer = await fetch(`${url}/v1/images/tasks/${taskId}`, { headers: { authorization: `Bearer ${key}` } });
  return { status: answer.status, headers: answer.headers, body: (await answer.json()) as TaskBody };
}

/** Returns the bytes of an image, from its URL or inline. */
export async function fetchImageBytes({ url, b64_json: base64 }: ImageEntry): Promise<Buffer> {
  if (url === undefined) return Buffer.from(base64 ?? '', 'base64');
  const answer = await fetch(url);
  if (answer.status !== 200) throw new Error(`${url} answers ${answer.status}`);
  return Buffer.from(await answer.arrayBuffer());
}

/** The pixels of an image; `data` has four bytes (RGBA) for each pixel. */
export interface Pixels {
  readonly width: number;
  readonly height: number;
  readonly data: Buffer;
}

/** Decodes an image file. */
export async function readPixels(file: Uint8Array): Promise<Pixels> {
  const { data, info } = await sharp(file).ensureAlpha().raw().toBuffer({ resolveWithObject: true });
  return { width: info.width, height: info.height, data };
}

/** Returns the mean difference of the colour channels of two images, 0 to 255, over the pixels that `counts` selects. */
export function measureDifference(one: Pixels, other: Pixels, counts: (x: number, y: number) => boolean): number {
  let sum = 0;
  let counted = 0;
  for (let at = 0; at < one.data.length; at += 4) {
    const [x, y] = [(at / 4) % one.width, Math.floor(at / 4 / one.width)];
    if (!counts(x, y)) continue;
    counted += 3;
    for (let channel = at; channel < at + 3; channel += 1) {
      sum += Math.abs((one.data[channel] ?? 0) - (other.data[channel] ?? 0));
    }
  }
  return sum / Math.max(1, counted);
}

/** Returns a PNG mask whose left half is transparent. */
export async function leftHalfMask(width: number, height: number): Promise<Buffer> {
  const hole = { create: { width: Math.floor(width / 2), height, channels: 4, background: '#000' } } as const;
  return sharp({ create: { width, height, channels: 4, background: '#fff' } })
    .composite([{ input: hole, left: 0, top: 0, blend: 'dest-out' }])
    .png()
    .toBuffer();
}

/** Returns an uncompressed PNG of noise, so that the file is about as large as its pixels. */
export function noisePng(width: number, height: number): Promise<Buffer> {
  const data = Buffer.alloc(width * height * 3);
  for (let at = 0, state = 1; at < data.length; at += 1) {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    data[at] = state >>> 24;
  }
  return sharp(data, { raw: { width, height, channels: 3 } })
    .png({ compressionLevel: 0 })
    .toBuffer();
}
