/** A line of the table. */
export interface Row {
  readonly what: string;
  /** The measured value, with units. */
  readonly measured: string;
  /** The target; absent: for information. */
  readonly target?: string;
  /** Whether it was reached; absent: for information. */
  readonly reached?: boolean;
}

/** A line with the machine's load average (of a minute) when its bench ended: above 2, something else was running. */
export type LoadedRow = Row & { readonly load: number };

/** The options of a run, for every bench. */
export interface Settings {
  /** Length of one run. */
  readonly seconds: number;
  /** How often each of two compared targets runs, in turns. */
  readonly rounds: number;
  /** Answers before what counts: V8 has settled after about 100,000. */
  readonly warmUpAnswers: number;
  /** Length of a run that is to fill the memory. */
  readonly saturationSeconds: number;
}

/** Prints rows as Markdown. */
export function table(rows: readonly LoadedRow[]): string {
  const lines = rows.map(({ what, measured, target = '', reached, load }) => {
    const verdict = reached === undefined ? '' : reached ? 'yes' : 'no';
    return `| ${what} | ${measured} | ${target} | ${verdict} | ${formatNumber(load)} |`;
  });
  return ['| what | measured | target | reached | load |', '| --- | --- | --- | --- | --- |', ...lines].join('\n');
}

/** Formats a number with its meaningful decimals. */
export function formatNumber(value: number): string {
  const magnitude = Math.abs(value);
  return value.toFixed(magnitude >= 100 ? 0 : magnitude >= 10 ? 1 : 2);
}

/** Formats counts by reason (`; 12 × status 500`); '' if there are none. */
export function formatFailures(failures: ReadonlyMap<string, number>): string {
  return [...failures].map(([reason, count]) => `; ${count} × ${reason}`).join('');
}
