import { createHash } from 'node:crypto';
import type { EmbedRequest, Vector } from '../../gen/tollgate/v1/embedding_pb.ts';
import { countInPieces } from '../../generation/count-input.ts';
import type { EmbeddingUpstream } from '../../generation/embeddings/embedding-upstream.ts';
import { inForm, vectorOfNumbers } from '../../generation/embeddings/vectors.ts';
import { loadTokenizer } from '../../generation/tokens.ts';
import { UpstreamFailure } from '../../generation/upstream.ts';
import { type Runtime, systemRuntime } from '../../lib/runtime.ts';
import { simulatorEmbeddingModels } from '../models.ts';
import { beginAsOrdered } from '../ordered-failure.ts';
import { yieldToOthers } from '../pace.ts';
import { parseSteering, splitSteering } from '../steering.ts';

/** How the built-in embedding model behaves. */
export interface EmbeddingSimulatorOptions {
  /** Whether `!sim ` lines of the last input steer; false: they are plain text. */
  readonly steering: boolean;
  /** Waits where a steering line says so. Undefined: the machine's. */
  readonly runtime?: Runtime;
}

/** The length of its vectors where no other is asked for. */
export const embedDimensions = 256;
/** Text models alone have such a limit; steering lines are read with it. */
const outputTokens = 0;
/** Characters of the pieces of words by which two spellings of a word are near each other. */
const gramLength = 3;
/** A whole word says more than a piece of one. */
const wordWeight = 3;

/** The built-in embedding model as an upstream: the same text has the same vector, and texts that share words have near ones. */
export function createEmbeddingSimulator({
  steering,
  runtime = systemRuntime,
}: EmbeddingSimulatorOptions): EmbeddingUpstream {
  return {
    takesTokenIds: false,
    async embed({ request, model, attempt, signal }) {
      signal.throwIfAborted();
      if (!simulatorEmbeddingModels.some(({ id }) => id === model)) {
        throw new UpstreamFailure('status', {
          status: 404,
          message: `The simulator has no embedding model "${model}".`,
        });
      }
      const { line } = splitSteering(request.inputs.at(-1)?.text ?? '', steering);
      if (line !== undefined) await beginAsOrdered(parseSteering(line, outputTokens), attempt, { runtime, signal });
      const texts = request.inputs.map(({ text }) => text);
      const vectors: Vector[] = [];
      for (const text of texts) {
        vectors.push(embedText(splitSteering(text, steering).plain, request));
        await yieldToOthers();
        signal.throwIfAborted();
      }
      return { vectors, inputTokens: await countInPieces(texts, await loadTokenizer()), dropped: [] };
    },
  };
}

function embedText(text: string, { dimensions = embedDimensions, form }: EmbedRequest): Vector {
  const sums = new Float64Array(dimensions);
  for (const [feature, weight] of listFeatures(text)) {
    const hash = createHash('sha256').update(feature).digest();
    // Two places each, so that two words seldom look alike.
    for (const at of [0, 8]) {
      const place = hash.readUInt32LE(at) % dimensions;
      sums[place] = (sums[place] ?? 0) + (hash.readUInt8(at + 4) % 2 === 0 ? weight : -weight);
    }
  }
  const norm = Math.hypot(...sums);
  // What has no words points along the first axis: a vector of zeroes has no direction.
  const numbers = norm === 0 ? [1, ...Array<number>(dimensions - 1).fill(0)] : Array.from(sums, sum => sum / norm);
  return inForm(vectorOfNumbers(numbers.map(number => Math.fround(number))), form);
}

/** Returns the words of a text and their pieces, with their weights: the root of how often they come. */
function listFeatures(text: string): Map<string, number> {
  const counts = new Map<string, number>();
  const add = (feature: string): void => void counts.set(feature, (counts.get(feature) ?? 0) + 1);
  for (const [word] of text
    .toLowerCase()
    .normalize('NFKC')
    .matchAll(/[\p{L}\p{N}]+/gu)) {
    add(`word:${word}`);
    const marked = ` ${word} `;
    for (let at = 0; at + gramLength <= marked.length; at += 1) add(`gram:${marked.slice(at, at + gramLength)}`);
  }
  for (const [feature, count] of counts) {
    counts.set(feature, Math.sqrt(count) * (feature.startsWith('word:') ? wordWeight : 1));
  }
  return counts;
}
