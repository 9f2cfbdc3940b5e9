import { type InputSegment, inputSegments } from '../generation/input-segments.ts';
import type { GenerateRequest } from '../gen/tollgate/v1/request_pb.ts';
import { type Tokenizer, leastTokensInTurns, tokenRuns } from '../generation/tokens.ts';
import { UpstreamFailure } from '../generation/upstream.ts';
import { yieldToOthers } from './pace.ts';

/** A run of text that is tokenized separately. */
export interface CountedRun {
  readonly text: string;
  readonly tokens: number;
}

/** A segment of the input with the tokens of its runs of text. Its `flatTokens` come before the text. */
export interface CountedSegment {
  readonly segment: InputSegment;
  readonly runs: readonly CountedRun[];
}

/** Returns the number of tokens of a segment. */
export function sumTokens({ segment, runs }: CountedSegment): number {
  return runs.reduce((sum, run) => sum + run.tokens, segment.flatTokens);
}

/** The number of runs (of 512 characters, 4 ms together) after which other requests get their turn. */
const runsInOneGo = 32;

function tooLong(contextLength: number): UpstreamFailure {
  return new UpstreamFailure('status', {
    status: 400,
    meaning: 'too_long',
    message: `The input is longer than this model's context length of ${contextLength} tokens.`,
  });
}

/**
 * Returns the segments of the input with their token counts, whose sum equals the result of `countInput`. Lets other work run in between.
 * Throws `UpstreamFailure` (status 400, context length exceeded) as soon as the input has more than `contextLength` tokens (Infinity: never),
 * without counting the rest.
 */
export async function countedInput(
  request: GenerateRequest,
  tokenizer: Tokenizer,
  contextLength: number,
  signal: AbortSignal,
): Promise<CountedSegment[]> {
  const segments = inputSegments(request);
  const flat = segments.reduce((sum, { flatTokens }) => sum + flatTokens, 0);
  const texts = segments.map(({ text }) => text);
  if (flat + (await leastTokensInTurns(texts, contextLength)) > contextLength) throw tooLong(contextLength);
  let total = 0;
  let counted = 0;
  const result: CountedSegment[] = [];
  for (const segment of segments) {
    const runs: CountedRun[] = [];
    total += segment.flatTokens;
    for (const text of tokenRuns(segment.text)) {
      const tokens = tokenizer.count(text);
      total += tokens;
      runs.push({ text, tokens });
      if (total > contextLength) throw tooLong(contextLength);
      counted += 1;
      if (counted % runsInOneGo !== 0) continue;
      await yieldToOthers();
      signal.throwIfAborted();
    }
    result.push({ segment, runs });
  }
  if (total > contextLength) throw tooLong(contextLength);
  return result;
}
