import type { GenerateRequest } from '../gen/tollgate/v1/request_pb.ts';
import { inputSegments } from './input-segments.ts';
import { leastTokensInTurns, type Tokenizer, tokenRuns } from './tokens.ts';

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
  const counter = new PieceCounter(tokenizer);
  let tokens = 0;
  for (const text of texts) tokens += await counter.count(text);
  return tokens;
}

/** Counts the tokens of one text after the other; other requests go on during a long one, and during many short ones. */
export class PieceCounter {
  readonly #tokenizer: Tokenizer;
  #runs = 0;

  constructor(tokenizer: Tokenizer) {
    this.#tokenizer = tokenizer;
  }

  /** Returns the tokens of a text. If they are certainly more than `max`, returns Infinity without counting them. */
  async count(text: string, max = Infinity): Promise<number> {
    if (max < Infinity && (await leastTokensInTurns([text], max)) > max) return Infinity;
    let tokens = 0;
    for (const run of tokenRuns(text)) {
      tokens += this.#tokenizer.count(run);
      this.#runs += 1;
      if (this.#runs % runsInOneGo === 0) await new Promise(setImmediate);
    }
    return tokens;
  }
}
