/** A step of a stream: all of the stream's state lives inside, so that steps are pure to the outside and can be chained. */
export interface Stepper<In, Out> {
  /** Takes one input, returns what is ready because of it, in order. */
  push(input: In): Out[];
  /** The input has ended: returns what was held back. Throws if the end came too early. */
  end(): Out[];
}
