import { countInPieces } from '../../generation/count-input.ts';
import { inputSegments } from '../../generation/input-segments.ts';
import { loadTokenizer } from '../../generation/tokens.ts';
import type { GenerateRequest } from '../../gen/tollgate/v1/request_pb.ts';

/** The warning in `x-tollgate-warnings` for a prompt that the upstream has cut. */
export const inputCutWarning = 'upstream_truncated';

/** Below this many tokens a prompt fits every server's context. */
const tokensMin = 1_000;
/** Tokenizers differ, but an upstream's count of a whole prompt is never this far below the gateway's. */
const reportedShareMin = 0.6;
/** The quick estimate can be 1.5 times the count, so this share is smaller. */
const quickShareMin = 0.5;

/**
 * Returns true if the reported tokens of a prompt are so few that a real count is worthwhile. `estimate`: the most tokens that it may have.
 */
export function mayBeCut(reported: number, estimate: number): boolean {
  return estimate >= tokensMin && reported < estimate * quickShareMin;
}

/** Counts the tokens of a prompt, and returns true if the upstream reported far fewer: then it has cut the prompt. */
export async function wasCut(request: GenerateRequest, reported: number): Promise<boolean> {
  const texts = inputSegments(request).map(({ text }) => text);
  const tokens = await countInPieces(texts, await loadTokenizer());
  return tokens >= tokensMin && reported < tokens * reportedShareMin;
}
