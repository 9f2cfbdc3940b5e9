/** A row of the table of results. */
export interface Row {
  readonly what: string;
  /** The measured value, with units. */
  readonly measured: string;
  /** The target; absent if the row is only for information. */
  readonly target?: string;
  /** Whether the target was reached; absent if there is none. */
  readonly reached?: boolean;
}

/** A row with the machine's load average (over a minute) when its bench ended: above 2, something else was running. */
export type LoadedRow = Row & { readonly load: number };

/** The options of a run, for every bench. */
export interface Settings {
  /** Duration of one run. */
  readonly seconds: number;
  /** How many times each of the two compared servers runs; they alternate. */
  readonly rounds: number;
  /** Answers before the measuring begins: V8 has optimized the code after about 100,000. */
  readonly warmUpAnswers: number;
  /** Duration of a run that is meant to fill the memory. */
  readonly saturationSeconds: number;
}

/** Formats rows as a Markdown table. */
export function table(rows: readonly LoadedRow[]): string {
  const lines = rows.map(({ what, measured, target = '', reached, load }) => {
    const verdict = reached === undefined ? '' : reached ? 'yes' : 'no';
    return `| ${what} | ${measured} | ${target} | ${verdict} | ${formatNumber(load)} |`;
  });
  return ['| what | measured | target | reached | load |', '| --- | --- | --- | --- | --- |', ...lines].join('\n');
}

/** Formats a number with two decimals or, from 10, one, or, from 100, none. */
export function formatNumber(value: number): string {
  const magnitude = Math.abs(value);
  return value.toFixed(magnitude >= 100 ? 0 : magnitude >= 10 ? 1 : 2);
}

/** Formats the number of failures by reason (`; 12 × status 500`); '' if there are none. */
export function formatFailures(failures: ReadonlyMap<string, number>): string {
  return [...failures].map(([reason, count]) => `; ${count} × ${reason}`).join('');
}
