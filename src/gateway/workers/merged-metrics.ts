/** Gauges that are added up over threads. All other gauges measure the same in each thread, and the highest value is shown. */
const summedGauges: ReadonlySet<string> = new Set([
  'tollgate_open_streams',
  'tollgate_held_dollars',
  'tollgate_ledger_queue',
  'tollgate_large_content_bytes',
  'tollgate_large_content_waiting',
]);
/** The prefixes of metrics of the process, which only the main thread reports. */
const ownPrefixes = ['process_', 'nodejs_heap'];

/** A metric family: its comment lines, and the values of its series by name and labels. */
interface ReadFamily {
  readonly head: string;
  readonly type: string;
  readonly series: Map<string, number>;
}

/** Merges the metrics of several threads into those of one program. Counts of an ended thread are kept, because a counter must not fall. */
export class MergedMetrics {
  /** The latest metrics of running threads, by the number of the thread. */
  readonly #last = new Map<number, string>();
  /** The counts of ended threads. */
  #ended: Map<string, ReadFamily> = new Map();

  /** Keeps the latest metrics of a thread. */
  keep(thread: number, text: string): void {
    this.#last.set(thread, text);
  }

  /** Called when a thread has ended. */
  ended(thread: number): void {
    const text = this.#last.get(thread);
    this.#last.delete(thread);
    if (text === undefined) return;
    const counted = [...readFamilies(text)].filter(([, { type }]) => type !== 'gauge');
    this.#ended = merge(this.#ended, new Map(counted));
  }

  /** Returns the metrics of all threads, for the families that the main thread shows; `own`: the main thread's text. */
  text(own: string): string {
    const shown = readFamilies(own);
    const families = [...this.#last.values()].map(readFamilies).reduce(merge, merge(shown, this.#ended));
    const texts = Array.from(families).flatMap(([name, { head, series }]) =>
      shown.has(name) ? [[head, ...Array.from(series, ([labels, value]) => `${labels} ${value}`)].join('\n')] : [],
    );
    return `${texts.join('\n\n')}\n`;
  }
}

function readFamilies(text: string): Map<string, ReadFamily> {
  const families = new Map<string, ReadFamily>();
  let current: ReadFamily | undefined;
  let help = '';
  for (const line of text.split('\n')) {
    const [, name, type] = /^# TYPE (\S+) (\S+)$/.exec(line) ?? [];
    if (name !== undefined && type !== undefined) {
      current = { head: `${help}\n${line}`, type, series: new Map() };
      families.set(name, current);
    } else if (line.startsWith('# HELP ')) {
      help = line;
    } else if (line !== '') {
      const space = line.lastIndexOf(' ');
      current?.series.set(line.slice(0, space), Number(line.slice(space + 1)));
    }
  }
  return families;
}

function merge(into: ReadonlyMap<string, ReadFamily>, more: ReadonlyMap<string, ReadFamily>): Map<string, ReadFamily> {
  const merged = new Map(into);
  for (const [name, family] of more) {
    const before = merged.get(name);
    if (before === undefined) merged.set(name, family);
    else if (!ownPrefixes.some(prefix => name.startsWith(prefix))) merged.set(name, mergeFamily(name, before, family));
  }
  return merged;
}

function mergeFamily(name: string, one: ReadFamily, other: ReadFamily): ReadFamily {
  const isSummed = one.type !== 'gauge' || summedGauges.has(name);
  const series = new Map(one.series);
  for (const [labels, value] of other.series) {
    const before = series.get(labels);
    if (before === undefined) series.set(labels, value);
    else series.set(labels, isSummed ? before + value : Math.max(before, value));
  }
  return { ...one, series };
}
