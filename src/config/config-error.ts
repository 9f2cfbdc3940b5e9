/** One thing that is wrong with the environment or the configuration file. */
export interface Problem {
  /** The file as it was named; absent if the environment is wrong. */
  readonly file?: string;
  /** From 1; absent if the problem is the file as a whole. */
  readonly line?: number;
  /** Its place in the file ("models[0].pricing.input"), or the variable's name; '' for the whole file. */
  readonly path: string;
  /** Names the fault and the allowed values; never contains a secret. */
  readonly message: string;
}

/** Formats a problem on one line: `tollgate.yaml:12: models[0].pricing.input: must be …`. */
export function problemLine({ file, line, path, message }: Problem): string {
  const place = file === undefined ? [] : [line === undefined ? file : `${file}:${line}`];
  return [...place, ...(path === '' ? [] : [path]), message].join(': ');
}

/**
 * The configuration is invalid, at the start or in `config check`. Contains every problem that was found, in the
 * order of the file; the program prints `lines` and exits 2.
 */
export class ConfigError extends Error {
  override readonly name = 'ConfigError';
  readonly problems: readonly Problem[];

  constructor(problems: readonly Problem[]) {
    super(problems.map(problemLine).join('\n'));
    this.problems = problems;
  }

  /** One printable line per problem. */
  get lines(): readonly string[] {
    return this.problems.map(problemLine);
  }
}
