import { type InputSegment, inputSegments } from '../generation/input-segments.ts';
import type { GenerateRequest } from '../gen/tollgate/v1/request_pb.ts';
import { type Tokenizer, leastTokensInTurns, tokenRuns } from '../generation/tokens.ts';
import { UpstreamFailure } from '../generation/upstream.ts';
import { yieldToOthers } from './pace.ts';

/** A run of text that is tokenized by itself. */
export interface CountedRun {
  readonly text: string;
  readonly tokens: number;
}

/** A piece of the input with its tokens, run by run; the flat ones come before the text. */
export interface CountedSegment {
  readonly segment: InputSegment;
  readonly runs: readonly CountedRun[];
}

/** Returns the sum of a piece's tokens. */
export function sumTokens({ segment, runs }: CountedSegment): number {
  return runs.reduce((sum, run) => sum + run.tokens, segment.flatTokens);
}

/** Runs of 512 characters (4 ms in all) after which other requests get their turn. */
const runsInOneGo = 32;

function tooLong(contextLength: number): UpstreamFailure {
  return new UpstreamFailure('status', {
    status: 400,
    contextLengthExceeded: true,
    message: `The input is longer than this model's context length of ${contextLength} tokens.`,
  });
}

/**
 * Returns the input with its token counts; their sum equals the result of `countInput`. Yields to other work in between. Throws
 * `UpstreamFailure` (status 400, context length exceeded) as soon as it is too long, without counting the rest. `contextLength` Infinity:
 * never.
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
