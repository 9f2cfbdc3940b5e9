/** An Images client without a library: it shows every header and byte that the tests judge. */
import sharp from 'sharp';
import type { Gateway } from '../gateway.ts';
import type { ChatError } from './chat-client.ts';

/** One picture of an answer. */
export interface ImageEntry {
  readonly url?: string;
  readonly b64_json?: string;
  readonly revised_prompt: string;
}

/** The Image result, or an error. */
export interface ImageBody {
  readonly created: number;
  readonly data: readonly ImageEntry[];
  readonly error: ChatError;
}

/** The task resource, or an error. */
export interface TaskBody {
  readonly task_id: string;
  readonly object: string;
  readonly status: 'queued' | 'in_progress' | 'completed' | 'failed';
  readonly created: number;
  readonly model: string;
  readonly result: ImageBody | null;
  readonly error: ChatError | null;
}

/** An answer of a JSON path. */
export interface ImageReply<Body> {
  readonly status: number;
  readonly headers: Headers;
  readonly body: Body;
}

/** Where and how to send a request. */
export interface SendImage {
  /** Another credential than the gateway's first API key. */
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

/** The task as it is now. */
export async function getTask(
  { url, apiKey }: Pick<Gateway, 'url' | 'apiKey'>,
  taskId: string,
  key = apiKey,
): Promise<ImageReply<TaskBody>> {
  const answer = await fetch(`${url}/v1/images/tasks/${taskId}`, { headers: { authorization: `Bearer ${key}` } });
  return { status: answer.status, headers: answer.headers, body: (await answer.json()) as TaskBody };
}

/** The bytes of a picture, by address or inline. */
export async function bytesOf({ url, b64_json: base64 }: ImageEntry): Promise<Buffer> {
  if (url === undefined) return Buffer.from(base64 ?? '', 'base64');
  const answer = await fetch(url);
  if (answer.status !== 200) throw new Error(`${url} answers ${answer.status}`);
  return Buffer.from(await answer.arrayBuffer());
}

/** Four bytes a pixel. */
export interface Pixels {
  readonly width: number;
  readonly height: number;
  readonly data: Buffer;
}

/** A picture's pixels. */
export async function pixelsOf(file: Uint8Array): Promise<Pixels> {
  const { data, info } = await sharp(file).ensureAlpha().raw().toBuffer({ resolveWithObject: true });
  return { width: info.width, height: info.height, data };
}

/** The mean difference of two pictures' pixels, 0 to 255, where `counts` says so. */
export function differenceOf(one: Pixels, other: Pixels, counts: (x: number, y: number) => boolean): number {
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

/** A mask whose left half is transparent. */
export async function leftHalfMask(width: number, height: number): Promise<Buffer> {
  const hole = { create: { width: Math.floor(width / 2), height, channels: 4, background: '#000' } } as const;
  return sharp({ create: { width, height, channels: 4, background: '#fff' } })
    .composite([{ input: hole, left: 0, top: 0, blend: 'dest-out' }])
    .png()
    .toBuffer();
}

/** A PNG of noise: as large a file as its pixels. */
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
