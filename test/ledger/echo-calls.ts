/** A call to `echo-thread.ts`. */
export interface EchoCall {
  readonly number: number;
}

/** Returns whether the reply to a call comes later. */
export function isLater({ number }: EchoCall): boolean {
  return number % 2 === 1;
}
