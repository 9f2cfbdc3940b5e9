import { countInPieces } from '../../generation/count-input.ts';
import { countSearches } from '../../generation/rerank/check-rerank.ts';
import type { Ranked, RerankUpstream } from '../../generation/rerank/rerank-upstream.ts';
import { loadTokenizer } from '../../generation/tokens.ts';
import { UpstreamFailure } from '../../generation/upstream.ts';
import { type Runtime, systemRuntime } from '../../lib/runtime.ts';
import { simulatorRerankModels } from '../models.ts';
import { delayOrFail } from '../requested-failure.ts';
import { yieldToOthers } from '../pace.ts';
import { parseSteering, splitSteering } from '../steering.ts';
import { listFeatures } from '../text-features.ts';

/** The options of the built-in rerank model. */
export interface RerankSimulatorOptions {
  /** True if `!sim ` lines of the query steer the answer. False if they are plain text. */
  readonly steering: boolean;
  /** The clock and timers for waits that a steering line asks for. Absent: those of the system. */
  readonly runtime?: Runtime;
}

/** `parseSteering` requires an output limit; a rerank model has none. */
const outputTokens = 0;

/** Creates the upstream of the built-in rerank model. A document's score, from 0 to 1, is the weighted share of the query's words, and pieces of words, that it contains, slightly reduced for longer documents. */
export function createRerankSimulator({ steering, runtime = systemRuntime }: RerankSimulatorOptions): RerankUpstream {
  return {
    async rerank({ request, model, attempt, signal }) {
      signal.throwIfAborted();
      if (!simulatorRerankModels.some(({ id }) => id === model)) {
        throw new UpstreamFailure('status', {
          status: 404,
          message: `The simulator has no rerank model "${model}".`,
        });
      }
      const { plain, line } = splitSteering(request.query, steering);
      if (line !== undefined) await delayOrFail(parseSteering(line, outputTokens), attempt, { runtime, signal });
      const requested = listFeatures(plain);
      const results: Ranked[] = [];
      for (const [index, document] of request.documents.entries()) {
        results.push({ index, relevanceScore: measureOverlap(requested, listFeatures(document)) });
        await yieldToOthers();
        signal.throwIfAborted();
      }
      return {
        results,
        inputTokens: await countInPieces([request.query, ...request.documents], await loadTokenizer()),
        searchUnits: countSearches(request),
        dropped: [],
      };
    },
  };
}

/**
 * Returns the share of the query's features, by weight, that a document has, reduced by 5 to 10 %: less for shorter documents, which
 * therefore score higher than longer ones with the same share.
 */
function measureOverlap(requested: ReadonlyMap<string, number>, document: ReadonlyMap<string, number>): number {
  let found = 0;
  let all = 0;
  for (const [feature, weight] of requested) {
    all += weight;
    if (document.has(feature)) found += weight;
  }
  if (found === 0) return 0;
  const brevity = 1 / (1 + Math.log1p(document.size));
  return Math.min(1, (found / all) * (0.9 + brevity / 10));
}
