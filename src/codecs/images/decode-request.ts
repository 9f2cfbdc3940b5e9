import { create } from '@bufbuild/protobuf';
import { GatewayError } from '../../errors/gateway-error.ts';
import { ImageForm, type ImageRequest, ImageRequestSchema } from '../../gen/tollgate/v1/image_pb.ts';
import { imageBytesMax, invalidImageField } from '../../generation/images/check-image-request.ts';
import { decodeBase64, parseDataUrl } from '../../generation/media.ts';
import { unknownMembers } from '../json.ts';
import { invalidField, parseBody } from '../schema.ts';
import {
  type EditBody,
  editMembers,
  editSchema,
  type GenerationBody,
  generationMembers,
  generationSchema,
} from './request-schema.ts';

/** A request of an image path. */
export interface DecodedImages {
  readonly request: ImageRequest;
  /** True if the client wants a task instead of the images. */
  readonly isAsync: boolean;
}

/** One part of a form, in order of arrival: a field's text, or a file's bytes. */
export interface FormPart {
  readonly name: string;
  readonly value: string | Uint8Array;
}

/** Decodes the JSON body of a generation. Throws `validation_error` that names the field. */
export function decodeGeneration(body: unknown): DecodedImages {
  const checked = parseBody(generationSchema, body);
  const { steps, num_inference_steps: alias } = checked;
  if (steps != null && alias != null && steps !== alias) {
    throw invalidField('num_inference_steps', 'is another name of steps and must not differ from it');
  }
  const request = toRequest(checked, generationMembers, { model: checked.model });
  const wanted = steps ?? alias;
  if (wanted != null) request.steps = wanted;
  return { request, isAsync: isAsync(checked) };
}

/** Decodes the JSON body of an edit. Throws `validation_error` that names the field. */
export function decodeEdit(body: unknown): DecodedImages {
  const checked = parseBody(editSchema, body);
  const images = checked.images.map((file, index) => decodeFile(file, `images.${index}`));
  const mask = checked.mask == null ? undefined : decodeFile(checked.mask, 'mask');
  return toEditRequest(checked, images, mask);
}

/**
 * Decodes the form of an edit, as the official client sends it: its files are named `image` or `image[]`, and every other value is a text. Throws
 * `validation_error` that names the field as the form does.
 */
export function decodeEditForm(parts: readonly FormPart[]): DecodedImages {
  const imageParts = parts.filter(({ name }) => imageNames.has(name));
  if (imageParts.length === 0) throw invalidField('image', 'is required and must be a PNG file');
  const masks = parts.filter(({ name }) => name === 'mask');
  if (masks.length > 1) throw invalidField('mask', 'must be sent at most once');
  // The files are not checked by the schema, whose images are texts.
  const body = { ...collectFields(parts), images: imageParts.map(() => ''), mask: null };
  const checked = namedAsForm(() => parseBody(editSchema, body));
  const images = imageParts.map(({ value }, index) => formFile(value, formName(`images.${index}`)));
  const [mask] = masks;
  return toEditRequest(checked, images, mask === undefined ? undefined : formFile(mask.value, 'mask'));
}

/** Calls the core for a form request. If an error names an image, the name becomes the one that the form has for it. */
export async function withFormNames<Value>(call: () => Promise<Value>): Promise<Value> {
  try {
    return await call();
  } catch (thrown) {
    throw thrown instanceof GatewayError ? renamed(thrown) : thrown;
  }
}

const imageNames: ReadonlySet<string> = new Set(['image', 'image[]', 'images', 'images[]']);
const numbers: ReadonlySet<string> = new Set(['n', 'seed', 'strength', 'guidance_scale', 'num_inference_steps']);
const flags: ReadonlySet<string> = new Set(['async', 'stream']);
const numberPattern = /^-?\d+(\.\d+)?([eE][+-]?\d+)?$/;

function collectFields(parts: readonly FormPart[]): Record<string, unknown> {
  // Without a prototype, so that a field called __proto__ is a field.
  const fields = Object.create(null) as Record<string, unknown>;
  for (const { name, value } of parts) {
    if (imageNames.has(name) || name === 'mask') continue;
    if (typeof value !== 'string') throw invalidField(name, 'must be a text and not a file');
    fields[name] = fieldValue(name, value);
  }
  return fields;
}

function fieldValue(name: string, value: string): unknown {
  if (numbers.has(name) && numberPattern.test(value)) return Number(value);
  if (flags.has(name) && (value === 'true' || value === 'false')) return value === 'true';
  return value;
}

function namedAsForm<Value>(call: () => Value): Value {
  try {
    return call();
  } catch (thrown) {
    throw thrown instanceof GatewayError ? renamed(thrown) : thrown;
  }
}

function renamed(error: GatewayError): GatewayError {
  const { param } = error.facts;
  if (param === undefined || !/^images(\.\d+)?$/.test(param)) return error;
  const name = formName(param);
  return new GatewayError(error.code, error.message.replace(`\`${param}\``, `\`${name}\``), {
    ...error.facts,
    param: name,
  });
}

/** Returns the form's name of a field: `image` for the edited image, `image.1` for the first reference. */
function formName(param: string): string {
  return param === 'images' || param === 'images.0' ? 'image' : param.replace('images', 'image');
}

function formFile(value: string | Uint8Array, param: string): Uint8Array {
  return typeof value === 'string' ? decodeFile(value, param) : value;
}

/** Decodes base64, plain or in a data URL. The content is checked together with all other files. */
function decodeFile(value: string, param: string): Uint8Array {
  // Even with line ends, base64 is at most twice as long as its bytes. A longer text is refused before decoding, which would block the event loop.
  if (value.length > 2 * imageBytesMax) throw invalidImageField(param, 'must be smaller than 4 MB');
  const bytes = decodeBase64(parseDataUrl(value)?.base64 ?? value);
  if (bytes === undefined) throw invalidField(param, 'is not valid base64');
  return bytes;
}

function toEditRequest(checked: EditBody, images: Uint8Array[], mask: Uint8Array | undefined): DecodedImages {
  const request = toRequest(checked, editMembers, { model: checked.model ?? '', images });
  if (mask !== undefined) request.mask = mask;
  if (checked.strength != null) request.strength = checked.strength;
  if (checked.num_inference_steps != null) request.steps = checked.num_inference_steps;
  request.kontextMaxMode = checked.kontext_max_mode ?? '';
  return { request, isAsync: isAsync(checked) };
}

function toRequest(
  checked: GenerationBody | EditBody,
  known: ReadonlySet<string>,
  own: { readonly model: string; readonly images?: Uint8Array[] },
): ImageRequest {
  const unknown = unknownMembers(checked, known);
  const request = create(ImageRequestSchema, {
    ...own,
    prompt: checked.prompt,
    size: checked.size ?? '',
    quality: checked.quality ?? '',
    negativePrompt: checked.negative_prompt ?? '',
    form: checked.response_format === 'b64_json' ? ImageForm.BYTES : ImageForm.URL,
    extraJson: unknown === undefined ? '' : JSON.stringify(unknown),
  });
  if (checked.n != null) request.n = checked.n;
  if (checked.seed != null) request.seed = BigInt(checked.seed);
  if (checked.guidance_scale != null) request.guidanceScale = checked.guidance_scale;
  return request;
}

function isAsync(checked: GenerationBody | EditBody): boolean {
  if (checked.stream === true) {
    throw new GatewayError('unsupported_parameter', 'Images are not streamed: leave `stream` out.', {
      param: 'stream',
    });
  }
  return checked.async === true;
}
