import type { TokenLogprob, TopLogprob } from '../gen/tollgate/v1/content_pb.ts';
import { SeededRandom } from './random.ts';

/** Tokens that are possible nearly anywhere in an English text. */
const rivals = [
  ',',
  '.',
  '\n',
  ...' the a of and to in is that it for on with as this by an at or one all so but'.split(/(?= )/),
];

const utf8 = new TextEncoder();

/** Makes plausible log probabilities for tokens; equal seeds give equal ones. The chosen token is always the likeliest. */
export class LogprobSource {
  readonly #random: SeededRandom;
  readonly #top: number;

  /** `top`: how many alternatives each token gets, including the token itself; 0 to 20. */
  constructor(seed: string, top: number) {
    this.#random = new SeededRandom(`logprobs ${seed}`);
    this.#top = top;
  }

  of(token: string): TokenLogprob {
    const likely = 0.5 + 0.499 * Math.sqrt(this.#random.next());
    const logprob = Math.log(likely);
    const bytes = utf8.encode(token);
    const top = this.#top === 0 ? [] : [this.#alternative(token, logprob), ...this.#rivals(token, 1 - likely)];
    return { $typeName: 'tollgate.v1.TokenLogprob', token, logprob, utf8: bytes, top };
  }

  #rivals(token: string, share: number): TopLogprob[] {
    const start = this.#random.below(rivals.length);
    const others = [...rivals.slice(start), ...rivals.slice(0, start)].filter(each => each !== token);
    // Each alternative gets half of the probability that the earlier ones have left, so that the sum stays below 1.
    return others.slice(0, this.#top - 1).map((each, at) => this.#alternative(each, Math.log(share * 0.5 ** (at + 1))));
  }

  #alternative(token: string, logprob: number): TopLogprob {
    return { $typeName: 'tollgate.v1.TopLogprob', token, logprob, utf8: utf8.encode(token) };
  }
}
