import { type ImageSize, parseImageSize } from '../../generation/images/image-size.ts';
import { type ImageType, parseExtension } from '../../generation/images/image-type.ts';
import type { Drawing, DrawnImage, ImageCall, ImageUpstream } from '../../generation/images/image-upstream.ts';
import { UpstreamFailure } from '../../generation/upstream.ts';
import { type Runtime, systemRuntime } from '../../lib/runtime.ts';
import { Semaphore } from '../../lib/semaphore.ts';
import { simulatorImageModels } from '../models.ts';
import { delayOrFail } from '../ordered-failure.ts';
import { parseSteering, splitSteering } from '../steering.ts';
import { drawSketch } from './draw.ts';

/** The options of the built-in image models. */
export interface ImageSimulatorOptions {
  /** True if `!sim ` lines steer the answer; false: they are plain text. */
  readonly steering: boolean;
  /** Times the waits that a steering line orders. Undefined: the machine's clock. */
  readonly runtime?: Runtime;
}

/** Images that are drawn at once: one core is left for everything else. */
const drawnAtOnce = 2;
/** Equal to the longest time that a request may run. */
const waitMaxMs = 3_600_000;
/** Only text models have such a limit; steering lines are read with it. */
const outputTokens = 0;

/**
 * The built-in image models as an upstream: the same request draws the same images. Failures that a steering line
 * orders are marked as such.
 */
export function createImageSimulator({ steering, runtime = systemRuntime }: ImageSimulatorOptions): ImageUpstream {
  const drawing = new Semaphore({ slots: drawnAtOnce, waitersMax: Infinity, waitMs: waitMaxMs });
  return {
    async draw(call) {
      const { request, signal, attempt } = call;
      signal.throwIfAborted();
      const largest = findLargest(call);
      const { plain, line } = splitSteering(request.prompt, steering);
      if (line !== undefined) await delayOrFail(parseSteering(line, outputTokens), attempt, { runtime, signal });
      const type = readType(request.extraJson);
      const prompt = plain.trim();
      const images: DrawnImage[] = [];
      for (let index = 0; index < (request.n ?? 1); index += 1) {
        const release = await drawing.acquire(signal);
        try {
          const bytes = await drawSketch({ request, prompt, index, largest }, { type }, signal);
          images.push({ bytes, type, revisedPrompt: prompt, extraJson: '' });
        } finally {
          release?.();
        }
      }
      return { images, extraJson: '' } satisfies Drawing;
    },
  };
}

function findLargest({ model }: ImageCall): ImageSize | undefined {
  const found = simulatorImageModels.find(({ id }) => id === model);
  if (found !== undefined) return parseImageSize(found.maxSize ?? '');
  throw new UpstreamFailure('status', { status: 404, message: `The simulator has no image model "${model}".` });
}

/** The official client's `output_format`; PNG by default. */
function readType(extraJson: string): ImageType {
  const { output_format: format = 'png' } =
    extraJson === '' ? {} : (JSON.parse(extraJson) as { output_format?: unknown });
  const type = typeof format === 'string' ? parseExtension(format) : undefined;
  if (type !== undefined) return type;
  throw new UpstreamFailure('status', {
    status: 400,
    message: 'output_format must be one of png, webp, jpeg.',
    param: 'output_format',
  });
}
