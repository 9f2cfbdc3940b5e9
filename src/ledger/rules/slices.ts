/**
 * Output is held in slices while a request runs. If funds are short, a slice leaves room for other requests. See docs/accounting.md
 * "Holds".
 */

/** The smallest slice in output tokens. */
const sliceMin = 64;

/** The funds and limits available to a request and to others that share its funds or limits. */
export interface Supply {
  /** The most output tokens that could be held for this request. */
  readonly most: number;
  /** The number of output tokens that cost as much as its input. */
  readonly input: number;
  /** The number of running requests on the same funds. */
  readonly running: number;
}

/**
 * Returns the size of the first slice: as much of the wanted size as leaves room for an equal slice of each running request and of one more.
 */
export function sliceSize(wanted: number, { most, input, running }: Supply): number {
  const share = Math.floor((most + input) / (running + 2) - input);
  return Math.min(wanted, most, Math.max(share, sliceMin));
}

/**
 * Returns how much of the wanted extension leaves room for the other running requests. `most`: the tokens that could be held at most;
 * `running`: the number of running requests, with this one.
 */
export function extensionSize(wanted: number, most: number, running: number): number {
  return Math.min(wanted, most, Math.max(Math.floor(most / Math.max(running, 1)), sliceMin));
}
