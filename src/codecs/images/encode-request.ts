import type { ImageRequest } from '../../gen/tollgate/v1/image_pb.ts';
import type { Json, JsonObject } from '../codec.ts';
import { defined, fieldJson, objectIn } from '../json.ts';

/** One part of the form of an edit. */
export interface EncodedPart {
  readonly name: string;
  /** A field's text, or a PNG file's bytes. */
  readonly value: string | Uint8Array;
}

/** `model` in each is the upstream's own name. */
export interface EncodeImages {
  readonly request: ImageRequest;
  readonly model: string;
}

/**
 * These models always answer with bytes and refuse the parameter. Source: OpenAI API reference, Images,
 * `response_format`: "This parameter isn't supported for the GPT image models".
 */
const alwaysBytes = /^(?:chatgpt-|gpt-)image/;

/** The JSON body of a generation. Same request, same bytes. */
export function encodeGeneration({ request, model }: EncodeImages): JsonObject {
  return {
    ...objectIn(fieldJson(request.extraJson)),
    ...encodeShared(request, model),
    ...(request.steps === undefined ? {} : { steps: request.steps }),
  };
}

/** The form of an edit: `image`, or `image[]` if there are several, as the official client sends it. */
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
  // The gateway stores the images itself: it always requests the bytes.
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

/** A form as the body of a request: parts between boundaries, files under names of their own. Source: RFC 7578. */
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
