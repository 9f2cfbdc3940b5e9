import { createHash } from 'node:crypto';
import type { EmbedRequest, Vector } from '../../gen/tollgate/v1/embedding_pb.ts';
import { countInPieces } from '../../generation/count-input.ts';
import type { EmbeddingUpstream } from '../../generation/embeddings/embedding-upstream.ts';
import { inForm, toVector } from '../../generation/embeddings/vectors.ts';
import { refuseLoss } from '../../generation/portable/portable-request.ts';
import { loadTokenizer } from '../../generation/tokens.ts';
import { UpstreamFailure } from '../../generation/upstream.ts';
import { type Runtime, systemRuntime } from '../../lib/runtime.ts';
import { simulatorEmbeddingModels } from '../models.ts';
import { delayOrFail } from '../requested-failure.ts';
import { yieldToOthers } from '../pace.ts';
import { parseSteering, splitSteering } from '../steering.ts';
import { listFeatures } from '../text-features.ts';

/** The options of the built-in embedding model. */
export interface EmbeddingSimulatorOptions {
  /** True if `!sim ` lines of the last input steer the answer. False if they are plain text. */
  readonly steering: boolean;
  /** The clock and timers for waits that a steering line asks for. Absent: those of the system. */
  readonly runtime?: Runtime;
}

/** The default length of its vectors. */
export const embedDimensions = 256;
/** `parseSteering` needs an output limit. Embedding models have none, so it is 0. */
const outputTokens = 0;

/** Creates the upstream of the built-in embedding model: equal texts have equal vectors, and texts that share words have similar ones. */
export function createEmbeddingSimulator({
  steering,
  runtime = systemRuntime,
}: EmbeddingSimulatorOptions): EmbeddingUpstream {
  return {
    takesTokenIds: false,
    async embed({ request, model, attempt, signal }) {
      signal.throwIfAborted();
      refuseLoss(request, request.geminiMembers);
      if (!simulatorEmbeddingModels.some(({ id }) => id === model)) {
        throw new UpstreamFailure('status', {
          status: 404,
          message: `The simulator has no embedding model "${model}".`,
        });
      }
      const { line } = splitSteering(request.inputs.at(-1)?.text ?? '', steering);
      if (line !== undefined) await delayOrFail(parseSteering(line, outputTokens), attempt, { runtime, signal });
      const texts = request.inputs.map(({ text }) => text);
      const vectors: Vector[] = [];
      for (const text of texts) {
        vectors.push(embedText(splitSteering(text, steering).plain, request));
        await yieldToOthers();
        signal.throwIfAborted();
      }
      return {
        vectors,
        inputTokens: await countInPieces(texts, await loadTokenizer()),
        dropped: request.geminiMembers,
      };
    },
  };
}

function embedText(text: string, { dimensions = embedDimensions, form }: EmbedRequest): Vector {
  const sums = new Float64Array(dimensions);
  for (const [feature, weight] of listFeatures(text)) {
    const hash = createHash('sha256').update(feature).digest();
    // Each word changes two numbers, so that two different words seldom have the same effect.
    for (const at of [0, 8]) {
      const place = hash.readUInt32LE(at) % dimensions;
      sums[place] = (sums[place] ?? 0) + (hash.readUInt8(at + 4) % 2 === 0 ? weight : -weight);
    }
  }
  const norm = Math.hypot(...sums);
  // A text without words has a vector along the first axis, because a vector of zeroes has no direction.
  const numbers = norm === 0 ? [1, ...Array<number>(dimensions - 1).fill(0)] : Array.from(sums, sum => sum / norm);
  return inForm(toVector(numbers.map(number => Math.fround(number))), form);
}
