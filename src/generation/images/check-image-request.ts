import { GatewayError } from '../../errors/gateway-error.ts';
import type { ImageRequest } from '../../gen/tollgate/v1/image_pb.ts';
import { parseImageSize } from './image-size.ts';

/**
 * Checks image requests, the same for REST and RPC. Errors have the field names of the public interface. Source:
 * docs/interfaces/images.md "Generations".
 */

/** The sizes that an edit can request. */
export const editSizes: readonly string[] = ['256x256', '512x512', '1024x1024'];
/** The most images that an edit takes, the same as in OpenAI's interface. */
export const editImagesMax = 16;
/** An image file must be smaller than this. */
export const imageBytesMax = 4 * 1024 * 1024;

/** Returns a `validation_error` that names a field. */
export function invalidImageField(param: string, message: string): GatewayError {
  return new GatewayError('validation_error', `\`${param}\` ${message}.`, {
    param,
    violations: [{ path: param.split('.'), message, type: 'invalid_value' }],
  });
}

type Range = readonly [name: string, value: number | undefined, min: number, max: number];

/** Checks what can be checked without the model and without decoding files. Throws `validation_error` with the name of the field. */
export function checkImageRequest(request: ImageRequest, isEdit: boolean): void {
  if (request.prompt === '') throw invalidImageField('prompt', 'must not be empty');
  const ranges: Range[] = [
    ['n', request.n, 1, 10],
    ['strength', request.strength, 0, 1],
    ...(isEdit
      ? ([
          ['guidance_scale', request.guidanceScale, 0, 20],
          ['num_inference_steps', request.steps, 1, 100],
        ] as const)
      : ([['steps', request.steps, 1, 2 ** 32 - 1]] as const)),
  ];
  for (const [name, value, min, max] of ranges) {
    // Written this way, the condition refuses NaN too.
    if (value !== undefined && !(value >= min && value <= max)) {
      throw invalidImageField(name, `must be from ${min} to ${max}`);
    }
  }
  if (request.guidanceScale !== undefined && !Number.isFinite(request.guidanceScale)) {
    throw invalidImageField('guidance_scale', 'must be a number');
  }
  checkSize(request.size, isEdit);
  checkFiles(request, isEdit);
}

function checkSize(size: string, isEdit: boolean): void {
  if (size === '') return;
  if (isEdit && !editSizes.includes(size)) {
    throw invalidImageField('size', `must be one of ${editSizes.join(', ')}`);
  }
  if (parseImageSize(size) === undefined) {
    throw invalidImageField('size', 'must be WIDTHxHEIGHT in pixels, such as 1024x1024');
  }
}

function checkFiles({ images, mask }: ImageRequest, isEdit: boolean): void {
  if (!isEdit) {
    if (images.length > 0 || mask !== undefined) throw invalidImageField('images', 'are only for edits');
    return;
  }
  if (images.length === 0 || images.length > editImagesMax) {
    throw invalidImageField('images', `must be 1 to ${editImagesMax} PNG files`);
  }
}
