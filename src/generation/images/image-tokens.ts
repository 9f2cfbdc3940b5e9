import type { ImageRequest } from '../../gen/tollgate/v1/image_pb.ts';
import type { ImageTerms } from '../price.ts';
import { estimateTokens } from '../tokens.ts';
import { parseImageSize } from './image-size.ts';

/**
 * The tokens of image models that count tokens (GPT image models): as a provider reports them, and as they can be known before. Source: OpenAI, "Image generation", table of
 * output tokens, 2026-11: they grow with the area, and depend on the quality.
 */

/** The tokens of a request for images; they do not overlap. */
export interface ImageTokens {
  readonly textInput: number;
  readonly imageInput: number;
  readonly cachedInput: number;
  readonly output: number;
}

/** Output tokens of an image of 1024x1024. An unknown quality, and one that the model chooses, is the highest. */
const squareTokens: ReadonlyMap<string, number> = new Map([
  ['low', 272],
  ['medium', 1056],
]);
const squareTokensMost = 4160;
const squareArea = 1024 * 1024;
/** The area of an image whose size the model chooses: 1024x1536. */
const usualArea = 1024 * 1536;
/** The most tokens of an image in the input: one of 1024x1536 with high fidelity. */
const inputImageTokens = 6240;

/** Returns the tokens that a number of images of a request takes. */
export function estimateImageTokens(request: ImageRequest, { size, quality }: ImageTerms, images: number): ImageTokens {
  const drawn = parseImageSize(size);
  const area = drawn === undefined ? usualArea : drawn.width * drawn.height;
  const each = Math.ceil(((squareTokens.get(quality) ?? squareTokensMost) * area) / squareArea);
  return {
    textInput: estimateTokens(request.prompt).high,
    imageInput: inputImageTokens * request.images.length,
    cachedInput: 0,
    output: each * images,
  };
}

/** Models draw somewhat more tokens than the table says; so much is held. */
export function withMargin(tokens: ImageTokens): ImageTokens {
  return { ...tokens, output: Math.ceil(tokens.output * 1.25) };
}

/** Returns the sum of tokens. */
export function sumImageTokens({ textInput, imageInput, cachedInput, output }: ImageTokens): number {
  return textInput + imageInput + cachedInput + output;
}

type JsonObject = { readonly [name: string]: unknown };

/** Returns the tokens that an answer reports; undefined: it reports none. `extraJson`: the unknown members of the answer. */
export function readImageTokens(extraJson: string): ImageTokens | undefined {
  if (!extraJson.includes('"usage"')) return undefined;
  const usage = objectIn((JSON.parse(extraJson) as JsonObject)['usage']);
  const [input, output] = [countIn(usage?.['input_tokens']), countIn(usage?.['output_tokens'])];
  if (input === undefined || output === undefined || input + output === 0) return undefined;
  const details = objectIn(usage?.['input_tokens_details']);
  const image = Math.min(countIn(details?.['image_tokens']) ?? 0, input);
  const cached = Math.min(countIn(details?.['cached_tokens']) ?? 0, input);
  // Which tokens were cached is not said: those that cost less, as far as they reach.
  const text = Math.max(0, input - image - cached);
  return { textInput: text, imageInput: input - cached - text, cachedInput: cached, output };
}

function objectIn(value: unknown): JsonObject | undefined {
  return typeof value === 'object' && value !== null ? (value as JsonObject) : undefined;
}

function countIn(value: unknown): number | undefined {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 ? value : undefined;
}
