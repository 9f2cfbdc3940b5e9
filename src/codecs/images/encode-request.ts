import type { ImageRequest } from '../../gen/tollgate/v1/image_pb.ts';
import type { Json, JsonObject } from '../codec.ts';
import { defined, fieldJson, objectIn } from '../json.ts';

/** One part of the form of an edit. */
export interface EncodedPart {
  readonly name: string;
  /** A field's text, or a PNG file's bytes. */
  readonly value: string | Uint8Array;
}

/** A request for images; `model` is the upstream's own name of it. */
export interface EncodeImages {
  readonly request: ImageRequest;
  readonly model: string;
}

/**
 * Models that always answer with bytes, and refuse the parameter `response_format`. Source: OpenAI API reference, Images,
 * `response_format`: "This parameter isn't supported for the GPT image models".
 */
const alwaysBytes = /^(?:chatgpt-|gpt-)image/;

/** Returns the JSON body of a generation. The same request gives the same bytes. */
export function encodeGeneration({ request, model }: EncodeImages): JsonObject {
  return {
    ...objectIn(fieldJson(request.extraJson)),
    ...encodeShared(request, model),
    ...(request.steps === undefined ? {} : { steps: request.steps }),
  };
}

/** Returns the form of an edit. Its images are called `image`, or `image[]` if there are several, as the official client sends them. */
export function encodeEdit({ request, model }: EncodeImages): EncodedPart[] {
  const fields: JsonObject = {
    ...objectIn(fieldJson(request.extraJson)),
    ...encodeShared(request, model),
    ...(request.strength === undefined ? {} : { strength: request.strength }),
    ...(request.steps === undefined ? {} : { num_inference_steps: request.steps }),
    ...(request.kontextMaxMode === '' ? {} : { kontext_max_mode: request.kontextMaxMode }),
  };
  const name = request.images.length === 1 ? 'image' : 'image[]';
  return [
    ...Object.entries(fields).map(([field, value]) => ({ name: field, value: fieldText(value) })),
    ...request.images.map(value => ({ name, value })),
    ...(request.mask === undefined ? [] : [{ name: 'mask', value: request.mask }]),
  ];
}

function encodeShared(request: ImageRequest, model: string): JsonObject {
  // The gateway always requests the bytes, because it stores the images itself.
  return defined({
    model,
    prompt: request.prompt,
    n: request.n,
    size: request.size || undefined,
    quality: request.quality || undefined,
    seed: request.seed === undefined ? undefined : Number(request.seed),
    negative_prompt: request.negativePrompt || undefined,
    guidance_scale: request.guidanceScale,
    response_format: alwaysBytes.test(model) ? undefined : 'b64_json',
  });
}

function fieldText(value: Json): string {
  return typeof value === 'string' ? value : JSON.stringify(value);
}

/** Returns a form as the body of a request, with a file name for each file. Source: RFC 7578. */
export function encodeForm(parts: readonly EncodedPart[], boundary: string): Buffer {
  const pieces: Uint8Array[] = [];
  for (const [index, { name, value }] of parts.entries()) {
    const quoted = name.replaceAll(/["\r\n]/g, encodeURIComponent);
    const isFile = typeof value !== 'string';
    const disposition = `form-data; name="${quoted}"${isFile ? `; filename="${index}.png"` : ''}`;
    const type = isFile ? '\r\nContent-Type: image/png' : '';
    pieces.push(Buffer.from(`--${boundary}\r\nContent-Disposition: ${disposition}${type}\r\n\r\n`));
    pieces.push(isFile ? value : Buffer.from(value), Buffer.from('\r\n'));
  }
  pieces.push(Buffer.from(`--${boundary}--\r\n`));
  return Buffer.concat(pieces);
}
