/** A metric's name, help and labels. */
export interface FamilySpec {
  readonly name: string;
  readonly help: string;
  /** The names of its labels, at most five; absent: none. */
  readonly labels?: readonly string[];
}

/** The value of a counter, which only grows, or of a gauge, which goes up and down. */
export interface Plain {
  value: number;
}

/** Counts values between bounds, and sums them up. */
export class Histogram {
  /** The upper bounds, ascending. */
  readonly bounds: readonly number[];
  /** For each bound: how many values are at most this bound and above the previous one. */
  readonly counts: number[];
  /** The number of all values, including those above the last bound. */
  count = 0;
  sum = 0;

  constructor(bounds: readonly number[]) {
    this.bounds = bounds;
    this.counts = bounds.map(() => 0);
  }

  observe(value: number): void {
    this.count += 1;
    this.sum += value;
    const { bounds, counts } = this;
    let at = 0;
    while (at < bounds.length && value > (bounds[at] ?? 0)) at += 1;
    if (at < bounds.length) counts[at] = (counts[at] ?? 0) + 1;
  }
}

type LabelValue = string | number;

/** A node of the tree of label values: it has a branch for each value of the next label, or, after the last label, the series. */
class Branch<Series> {
  readonly branches = new Map<LabelValue, Branch<Series>>();
  series: Series | undefined;
}

/**
 * A metric and its series: one for each combination of label values that has occurred. A series is found by its label
 * values, one after the other, and counts in plain fields. Its labels are formatted only once, everything else when the
 * text is requested.
 */
abstract class Family<Series> {
  protected readonly name: string;
  readonly #labels: readonly string[];
  readonly #head: string;
  #root = new Branch<Series>();
  /** All series, in the order in which they first occurred. */
  #series: { readonly labels: string; readonly series: Series }[] = [];

  constructor({ name, help, labels = [] }: FamilySpec, type: string) {
    this.name = name;
    this.#labels = labels;
    this.#head = `# HELP ${name} ${help}\n# TYPE ${name} ${type}`;
  }

  /** Returns the series with these label values. There must be one value for each label of the metric. */
  of(...values: readonly LabelValue[]): Series {
    let branch: Branch<Series> | undefined = this.#root;
    for (let at = 0; at < values.length; at += 1) branch = branch?.branches.get(values[at] as LabelValue);
    return branch?.series ?? this.#add(values);
  }

  /** Removes all series. */
  clear(): void {
    this.#root = new Branch();
    this.#series = [];
  }

  /** Returns the metric in Prometheus' text format, without a line end. */
  text(): string {
    return [this.#head, ...this.#series.flatMap(({ labels, series }) => this.lines(series, labels))].join('\n');
  }

  #add(values: readonly LabelValue[]): Series {
    const series = this.make();
    const labels = this.#labels.map((label, at) => `${label}="${escaped(String(values[at] ?? ''))}"`).join(',');
    this.#series.push({ labels, series });
    let branch = this.#root;
    for (const value of values) {
      const next = branch.branches.get(value) ?? new Branch<Series>();
      branch.branches.set(value, next);
      branch = next;
    }
    branch.series = series;
    return series;
  }

  protected abstract make(): Series;
  protected abstract lines(series: Series, labels: string): string[];
}

/** A metric of plain numbers. */
export class Numbers extends Family<Plain> {
  constructor(type: 'counter' | 'gauge', spec: FamilySpec) {
    super(spec, type);
  }

  protected override make(): Plain {
    return { value: 0 };
  }

  protected override lines({ value }: Plain, labels: string): string[] {
    return [labels === '' ? `${this.name} ${value}` : `${this.name}{${labels}} ${value}`];
  }
}

/** A metric of histograms. */
export class Histograms extends Family<Histogram> {
  readonly #bounds: readonly number[];

  constructor(bounds: readonly number[], spec: FamilySpec) {
    super(spec, 'histogram');
    this.#bounds = bounds;
  }

  protected override make(): Histogram {
    return new Histogram(this.#bounds);
  }

  protected override lines({ bounds, counts, count, sum }: Histogram, labels: string): string[] {
    const rest = labels === '' ? '' : `,${labels}`;
    const values = labels === '' ? '' : `{${labels}}`;
    let total = 0;
    const buckets = bounds.map((bound, at) => {
      total += counts[at] ?? 0;
      return `${this.name}_bucket{le="${bound}"${rest}} ${total}`;
    });
    return [
      ...buckets,
      `${this.name}_bucket{le="+Inf"${rest}} ${count}`,
      `${this.name}_sum${values} ${sum}`,
      `${this.name}_count${values} ${count}`,
    ];
  }
}

function escaped(value: string): string {
  return value.replaceAll('\\', '\\\\').replaceAll('\n', '\\n').replaceAll('"', '\\"');
}
