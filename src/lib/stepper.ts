/** A step of a stream: all of the stream's state lives inside, so that steps can be chained. */
export interface Stepper<In, Out> {
  /** Takes one input, and returns the outputs that it completes, in order. */
  push(input: In): Out[];
  /** Ends the input; returns the outputs that were held back. Throws if the end came too early. */
  end(): Out[];
}
