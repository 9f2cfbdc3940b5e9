import type { GenerateRequest } from '../../gen/tollgate/v1/request_pb.ts';
import { inputSegments } from '../../generation/input-segments.ts';
import { type Tokenizer, tokenRuns } from '../../generation/tokens.ts';

/** Runs of at most 512 characters (about 4 ms in all) between which other requests go on. */
const runsInOneGo = 32;

/** What `countInput` counts, in pieces: a body of many megabytes must not stop the gateway for seconds. */
export async function countInputInPieces(request: GenerateRequest, tokenizer: Tokenizer): Promise<number> {
  let tokens = 0;
  let runs = 0;
  for (const segment of inputSegments(request)) {
    tokens += segment.flatTokens;
    for (const run of tokenRuns(segment.text)) {
      tokens += tokenizer.count(run);
      runs += 1;
      if (runs % runsInOneGo === 0) await turn();
    }
  }
  return tokens;
}

function turn(): Promise<void> {
  return new Promise(resolve => {
    setImmediate(resolve);
  });
}
