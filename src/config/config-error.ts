/** A problem in the environment or the configuration file. */
export interface Problem {
  /** The path of the file as given; absent if the problem is in the environment. */
  readonly file?: string;
  /** The line, from 1; absent if the problem is the file as a whole. */
  readonly line?: number;
  /** The setting ("models[0].pricing.input") or the name of the variable; '' for the whole file. */
  readonly path: string;
  /** The mistake, and the allowed values. Never contains a secret. */
  readonly message: string;
}

/** Formats a problem on one line: `tollgate.yaml:12: models[0].pricing.input: must be …`. */
export function problemLine({ file, line, path, message }: Problem): string {
  const place = file === undefined ? [] : [line === undefined ? file : `${file}:${line}`];
  return [...place, ...(path === '' ? [] : [path]), message].join(': ');
}

/** The most problems that are printed. A slip can make one of every line. */
const shownMax = 20;

/**
 * Thrown if the configuration is invalid, at the start or in `config check`. Contains every problem, in the order of
 * the file. The program prints `lines` and exits with code 2.
 */
export class ConfigError extends Error {
  override readonly name = 'ConfigError';
  readonly problems: readonly Problem[];

  constructor(problems: readonly Problem[]) {
    super(problems.map(problemLine).join('\n'));
    this.problems = problems;
  }

  /** One line of text for each of the first problems, and one that counts the others. */
  get lines(): readonly string[] {
    const lines = this.problems.slice(0, shownMax).map(problemLine);
    const others = this.problems.length - lines.length;
    return others === 0 ? lines : [...lines, `and ${others} more ${others === 1 ? 'problem' : 'problems'}`];
  }
}
