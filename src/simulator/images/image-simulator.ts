import { type ImageSize, parseImageSize } from '../../generation/images/image-size.ts';
import { type ImageType, parseExtension } from '../../generation/images/image-type.ts';
import type { Drawing, DrawnImage, ImageCall, ImageUpstream } from '../../generation/images/image-upstream.ts';
import { UpstreamFailure } from '../../generation/upstream.ts';
import { type Runtime, systemRuntime } from '../../lib/runtime.ts';
import { Semaphore } from '../../lib/semaphore.ts';
import { simulatorImageModels } from '../models.ts';
import { delayOrFail } from '../requested-failure.ts';
import { parseSteering, splitSteering } from '../steering.ts';
import { drawSketch } from './draw.ts';

/** The options of the built-in image models. */
export interface ImageSimulatorOptions {
  /** True if `!sim ` lines steer the answer. False if they are plain text. */
  readonly steering: boolean;
  /** The clock and timers for waits that a steering line asks for. Absent: those of the system. */
  readonly runtime?: Runtime;
}

/** How many images are drawn at a time: few, so that a core is left for everything else. */
const drawnAtOnce = 2;
/** How long an image may wait to be drawn: the longest time that a request may run. */
const waitMaxMs = 3_600_000;
/** The output limit for reading steering lines: only text models have one. */
const outputTokens = 0;

/**
 * Creates the upstream of the built-in image models: equal requests give equal images. Failures that a steering line
 * asks for are marked (`requested`).
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

/** Reads `output_format`, which OpenAI's client sends; PNG by default. */
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
