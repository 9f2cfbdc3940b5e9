import { countInPieces } from '../../generation/count-input.ts';
import { inputSegments } from '../../generation/input-segments.ts';
import { loadTokenizer } from '../../generation/tokens.ts';
import type { GenerateRequest } from '../../gen/tollgate/v1/request_pb.ts';

/** The warning in `x-tollgate-warnings` for a prompt that the upstream has cut. */
export const inputCutWarning = 'upstream_truncated';

/** A prompt of fewer tokens fits the context of every server. */
const tokensMin = 1_000;
/** The smallest share of the gateway's count that an upstream reports for a complete prompt. Tokenizers differ, but not by more. */
const reportedShareMin = 0.6;
/** The same share of the quick estimate, which can be 1.5 times the count. */
const quickShareMin = 0.5;

/**
 * Returns true if the upstream reported so few tokens for a prompt that the prompt should be counted. `estimate`: the most tokens that it can have.
 */
export function mayBeCut(reported: number, estimate: number): boolean {
  return estimate >= tokensMin && reported < estimate * quickShareMin;
}

const dataUrl = /data:[\w.+-]+\/[\w.+-]+;base64,[\w+/=-]+/g;

/** Counts the tokens of a prompt. Returns true if the upstream reported far fewer, which means that it has cut the prompt. */
export async function wasCut(request: GenerateRequest, reported: number): Promise<boolean> {
  // Files that the gateway does not know are in the text as base64, of which the upstream counts something else.
  const texts = inputSegments(request).map(({ text }) => text.replaceAll(dataUrl, ''));
  const tokens = await countInPieces(texts, await loadTokenizer());
  return tokens >= tokensMin && reported < tokens * reportedShareMin;
}
