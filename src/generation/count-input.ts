import type { GenerateRequest } from '../gen/tollgate/v1/request_pb.ts';
import { inputSegments } from './input-segments.ts';
import { leastTokensInTurns, type Tokenizer, tokenRuns } from './tokens.ts';

/** How many runs of at most 512 characters are counted (in about 4 ms together) before other requests get a turn. */
const runsInOneGo = 32;

/** Counts as `countInput` does, but in pieces, so that a body of many megabytes does not block the gateway for seconds. */
export async function countInputInPieces(request: GenerateRequest, tokenizer: Tokenizer): Promise<number> {
  const segments = inputSegments(request);
  const texts = segments.map(({ text }) => text);
  return segments.reduce((sum, { flatTokens }) => sum + flatTokens, await countInPieces(texts, tokenizer));
}

/** Counts the tokens of texts in pieces. Used for answers whose upstream reports no usage, which may be long. */
export async function countInPieces(texts: readonly string[], tokenizer: Tokenizer): Promise<number> {
  const counter = new PieceCounter(tokenizer);
  let tokens = 0;
  for (const text of texts) tokens += await counter.count(text);
  return tokens;
}

/** Counts the tokens of one text after the other. Other requests get turns during a long text, and between many short ones. */
export class PieceCounter {
  readonly #tokenizer: Tokenizer;
  #runs = 0;

  constructor(tokenizer: Tokenizer) {
    this.#tokenizer = tokenizer;
  }

  /** Returns the number of tokens of a text; Infinity, without counting, if it is certainly more than `max`. */
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
