/**
 * Slices: the steps in which output is held for a request. If funds are short, slices leave room for others. Source: docs/accounting.md
 * "Holds".
 */

/** The smallest slice in output tokens. */
const sliceMin = 64;

/** The amount available to a request and to others like it. */
export interface Supply {
  /** Output tokens that could be held for this request. */
  readonly most: number;
  /** What its input takes of that amount, in output tokens. */
  readonly input: number;
  /** The number of running requests on the same funds. */
  readonly running: number;
}

/**
 * Returns the first slice: as much of the wanted one as leaves room for equal slices of the running requests like it and of one more.
 */
export function sliceSize(wanted: number, { most, input, running }: Supply): number {
  const share = Math.floor((most + input) / (running + 2) - input);
  return Math.min(wanted, most, Math.max(share, sliceMin));
}

/**
 * Returns how much of the wanted extension leaves room for the other running requests. `most`: the largest possible hold; `running`
 * includes this request.
 */
export function extensionSize(wanted: number, most: number, running: number): number {
  return Math.min(wanted, most, Math.max(Math.floor(most / Math.max(running, 1)), sliceMin));
}
