import type { GenerateRequest } from '../gen/tollgate/v1/request_pb.ts';
import { inputSegments } from './input-segments.ts';
import { type Tokenizer, tokenRuns } from './tokens.ts';

/** Runs of at most 512 characters (about 4 ms in all) between which other requests go on. */
const runsInOneGo = 32;

/** What `countInput` counts, in pieces: a body of many megabytes must not stop the gateway for seconds. */
export async function countInputInPieces(request: GenerateRequest, tokenizer: Tokenizer): Promise<number> {
  const counter = new PieceCounter(tokenizer);
  let tokens = 0;
  for (const segment of inputSegments(request)) tokens += segment.flatTokens + (await counter.count(segment.text));
  return tokens;
}

/** The tokens of a text, in pieces as well: an answer whose upstream reports no usage may be as long. */
export async function countTextInPieces(text: string, tokenizer: Tokenizer): Promise<number> {
  return new PieceCounter(tokenizer).count(text);
}

class PieceCounter {
  readonly #tokenizer: Tokenizer;
  #runs = 0;

  constructor(tokenizer: Tokenizer) {
    this.#tokenizer = tokenizer;
  }

  async count(text: string): Promise<number> {
    let tokens = 0;
    for (const run of tokenRuns(text)) {
      tokens += this.#tokenizer.count(run);
      this.#runs += 1;
      if (this.#runs % runsInOneGo === 0) await turn();
    }
    return tokens;
  }
}

function turn(): Promise<void> {
  return new Promise(resolve => {
    setImmediate(resolve);
  });
}
