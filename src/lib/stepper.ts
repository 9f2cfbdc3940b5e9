/** A step in processing a stream. It contains all its state, so steps can be chained. */
export interface Stepper<In, Out> {
  /** Takes one input, and returns the outputs that it completes, in order. */
  push(input: In): Out[];
  /** Ends the input and returns the outputs that were held back. Throws if the input is incomplete. */
  end(): Out[];
}
