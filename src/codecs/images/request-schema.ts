import * as z from 'zod';
import { editImagesMax, editSizes } from '../../generation/images/check-image-request.ts';
import { documented } from '../../lib/schema-notes.ts';
import { parseImageSize } from '../../generation/images/image-size.ts';
import { flag, integerIn, listOf, members, numberIn, object, exactlyOneOf, someText, text } from '../schema.ts';

/**
 * The schemas of the image paths. Unknown members stay in the checked value; null in an optional field means that it
 * was not sent. Sources: docs/interfaces/images.md "Generations", "Edits".
 */

const sizeText = documented(
  text.refine(value => parseImageSize(value) !== undefined, 'must be WIDTHxHEIGHT in pixels, such as 1024x1024'),
  { json: { pattern: '^[0-9]+x[0-9]+$' } },
);

const shared = {
  prompt: someText,
  n: integerIn(1, 10).nullish(),
  quality: text.nullish(),
  response_format: exactlyOneOf(['url', 'b64_json']).nullish(),
  seed: integerIn(Number.MIN_SAFE_INTEGER, Number.MAX_SAFE_INTEGER).nullish(),
  negative_prompt: text.nullish(),
  async: flag.nullish(),
  stream: flag.nullish(),
};

const steps = integerIn(1, 2 ** 32 - 1);

/** The body of a generation. */
export const generationSchema = object({
  ...shared,
  model: someText,
  size: sizeText.nullish(),
  steps: steps.nullish(),
  num_inference_steps: steps.nullish(),
  guidance_scale: z.number('must be a number').nullish(),
});

/** The body of an edit; its images are base64 texts. */
export const editSchema = object({
  ...shared,
  model: someText.nullish(),
  images: listOf(text, 1, editImagesMax),
  mask: text.nullish(),
  size: exactlyOneOf(editSizes).nullish(),
  strength: numberIn(0, 1).nullish(),
  guidance_scale: numberIn(0, 20).nullish(),
  num_inference_steps: integerIn(1, 100).nullish(),
  kontext_max_mode: text.nullish(),
});

/** A checked generation. */
export type GenerationBody = z.output<typeof generationSchema>;
/** A checked edit. */
export type EditBody = z.output<typeof editSchema>;

/** The members of a generation that the contract has fields for. */
export const generationMembers = members(...Object.keys(generationSchema.shape));
/** The members of an edit that the contract has fields for. */
export const editMembers = members(...Object.keys(editSchema.shape));
