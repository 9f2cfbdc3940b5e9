/**
 * Slices: how much output is held for a request at a time. If funds are short, slices leave room for others. Source:
 * docs/accounting.md "Holds".
 */

/** Slices do not shrink below that many output tokens. */
const sliceMin = 64;

/** What is available for a request and for others like it. */
export interface Supply {
  /** Output tokens that could be held for this request. */
  readonly most: number;
  /** What its input takes of the same, in output tokens. */
  readonly input: number;
  /** Requests that run on the same funds. */
  readonly running: number;
}

/** Returns the first slice: as much of the wanted one as leaves room for as many requests like it as run with it, this one included. */
export function sliceSize(wanted: number, { most, input, running }: Supply): number {
  const share = Math.floor((most + input) / (running + 2) - input);
  return Math.min(wanted, most, Math.max(share, sliceMin));
}

/** Returns how much of the wanted extension leaves room for as many as the others that run. `most`: what could be held; `running` has this request in it. */
export function extensionSize(wanted: number, most: number, running: number): number {
  return Math.min(wanted, most, Math.max(Math.floor(most / Math.max(running, 1)), sliceMin));
}
