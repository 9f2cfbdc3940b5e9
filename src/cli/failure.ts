/** Thrown if a command fails. `exitCode`: 1 if it failed, 2 if it was used wrongly. `lines`: what is printed. */
export class CommandFailure extends Error {
  override readonly name = 'CommandFailure';
  readonly exitCode: 1 | 2;
  readonly lines: readonly string[];

  constructor(exitCode: 1 | 2, lines: readonly string[], cause?: unknown) {
    super(lines.join('\n'), cause === undefined ? undefined : { cause });
    this.exitCode = exitCode;
    this.lines = lines;
  }
}
