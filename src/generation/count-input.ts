import type { GenerateRequest } from '../gen/tollgate/v1/request_pb.ts';
import { inputSegments } from './input-segments.ts';
import { type Tokenizer, tokenRuns } from './tokens.ts';

/** Runs of at most 512 characters (about 4 ms in all) between which other requests go on. */
const runsInOneGo = 32;

/** Does the same as `countInput`, in pieces: a body of many megabytes must not block the gateway for seconds. */
export async function countInputInPieces(request: GenerateRequest, tokenizer: Tokenizer): Promise<number> {
  const segments = inputSegments(request);
  const texts = segments.map(({ text }) => text);
  return segments.reduce((sum, { flatTokens }) => sum + flatTokens, await countInPieces(texts, tokenizer));
}

/** Counts the tokens of texts, piece by piece: an answer whose upstream reports no usage may be as long. */
export async function countInPieces(texts: readonly string[], tokenizer: Tokenizer): Promise<number> {
  let tokens = 0;
  let runs = 0;
  for (const text of texts) {
    for (const run of tokenRuns(text)) {
      tokens += tokenizer.count(run);
      runs += 1;
      if (runs % runsInOneGo === 0) await new Promise(setImmediate);
    }
  }
  return tokens;
}
