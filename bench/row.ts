/** A line of the table. */
export interface Row {
  readonly what: string;
  /** What was measured, with units. */
  readonly found: string;
  /** What is to be reached, as `design/architecture.md` says it; absent: for information. */
  readonly target?: string;
  /** Whether it was reached; absent: for information. */
  readonly reached?: boolean;
}

/** What every bench is told. */
export interface Settings {
  /** Length of one run. */
  readonly seconds: number;
  /** How often each of two that are compared is run, by turns. */
  readonly rounds: number;
  /** Load before what counts: the gateway's code is compiled for 30,000 requests. */
  readonly warmUpSeconds: number;
  readonly peers: boolean;
}

/** Prints rows as Markdown. */
export function table(rows: readonly Row[]): string {
  const lines = rows.map(({ what, found, target = '', reached }) => {
    const verdict = reached === undefined ? '' : reached ? 'yes' : 'no';
    return `| ${what} | ${found} | ${target} | ${verdict} |`;
  });
  return ['| what | found | to reach | reached |', '| --- | --- | --- | --- |', ...lines].join('\n');
}

/** A number with as many decimals as say something. */
export function shown(value: number): string {
  const magnitude = Math.abs(value);
  return value.toFixed(magnitude >= 100 ? 0 : magnitude >= 10 ? 1 : 2);
}
