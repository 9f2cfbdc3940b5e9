/** Parses the text format of Prometheus, checks it like `promtool check metrics`, and parses queries with the grammar of Prometheus. */
import { parser } from '@prometheus-io/lezer-promql';

/** One metric of a metrics page, with its samples. */
export interface Family {
  readonly type: string;
  readonly help: string;
  /** The names of the labels of all samples, without the `le` of histograms. */
  readonly labels: ReadonlySet<string>;
  readonly samples: readonly Sample[];
}

/** One value of a metric: a line of the page. */
export interface Sample {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

const sampleLine = /^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)$/;
const labelPair = /([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"(,|$)/y;

/** Parses a metrics page. Throws an error with the reason and the line if it is not valid. */
export function readPage(page: string): Map<string, Family> {
  const families = new Map<string, Family & { labels: Set<string>; samples: Sample[] }>();
  let help = '';
  if (!page.endsWith('\n')) throw new Error('the page must end in a line end');
  for (const line of page.split('\n')) {
    const comment = /^# (HELP|TYPE) (\S+) (.+)$/.exec(line);
    if (line === '') continue;
    if (comment !== null) {
      const [, kind, name = '', text = ''] = comment;
      if (kind === 'HELP') help = text;
      else if (families.has(name)) throw new Error(`${name} has two types`);
      else families.set(name, { type: text, help, labels: new Set(), samples: [] });
      continue;
    }
    const sample = readSample(line);
    const owner = [...families].find(([name, { type }]) => owns(name, type, sample.name))?.[1];
    if (owner === undefined) throw new Error(`no type before ${line}`);
    for (const label of Object.keys(sample.labels)) if (label !== 'le') owner.labels.add(label);
    owner.samples.push(sample);
  }
  return families;
}

function owns(name: string, type: string, sample: string): boolean {
  return type === 'histogram' ? [`${name}_bucket`, `${name}_sum`, `${name}_count`].includes(sample) : name === sample;
}

function readSample(line: string): Sample {
  const [, name = '', list = '', text = ''] = sampleLine.exec(line) ?? [];
  const value = text === '+Inf' ? Infinity : Number(text);
  if (name === '' || Number.isNaN(value)) throw new Error(`not a sample: ${line}`);
  const labels: Record<string, string> = {};
  labelPair.lastIndex = 0;
  while (labelPair.lastIndex < list.length) {
    const pair = labelPair.exec(list);
    if (pair === null) throw new Error(`labels that are not read: ${line}`);
    const [, label = '', quoted = ''] = pair;
    if (label in labels) throw new Error(`${label} twice: ${line}`);
    labels[label] = quoted;
  }
  return { name, labels, value };
}

/** Returns what `promtool check metrics` would report, and violations of its naming rules. */
export function lint(families: ReadonlyMap<string, Family>): string[] {
  return [...families].flatMap(([name, family]) => [...lintNames(name, family), ...lintSamples(name, family)]);
}

function lintNames(name: string, { type, help }: Family): string[] {
  const found: string[] = [];
  if (!['counter', 'gauge', 'histogram'].includes(type)) found.push(`${name}: ${type} is no type`);
  if (help === '') found.push(`${name}: no help`);
  if (!/^[a-z][a-z0-9]*(?:_[a-z0-9]+)*$/.test(name)) found.push(`${name}: not snake case`);
  if ((type === 'counter') !== name.endsWith('_total'))
    found.push(`${name}: a counter must end in _total, and nothing else may`);
  if (/_(?:bucket|sum|count)$/.test(name)) found.push(`${name}: ends as a part of a histogram`);
  if (/milliseconds|_ms\b|kilobytes|megabytes|percent/.test(name)) found.push(`${name}: not a base unit`);
  return found;
}

function lintSamples(name: string, { type, samples }: Family): string[] {
  const found: string[] = [];
  const series = samples.map(sample =>
    JSON.stringify([sample.name, Object.entries(sample.labels).toSorted(([one], [other]) => (one < other ? -1 : 1))]),
  );
  if (new Set(series).size < series.length) found.push(`${name}: a series twice`);
  if (type === 'counter' && samples.some(({ value }) => value < 0)) found.push(`${name}: below 0`);
  if (type !== 'histogram') return found;
  const groups = Map.groupBy(samples, ({ labels }) => JSON.stringify({ ...labels, le: undefined }));
  for (const [labels, group] of groups) {
    const buckets = group.filter(sample => sample.name.endsWith('_bucket'));
    const bounds = buckets.map(({ labels: { le } }) => (le === '+Inf' ? Infinity : Number(le)));
    const rises = (values: readonly number[], least: number): boolean =>
      values.every((value, index) => index === 0 || value - (values[index - 1] ?? 0) >= least);
    const count = group.find(sample => sample.name.endsWith('_count'))?.value;
    if (bounds.at(-1) !== Infinity || !rises(bounds, Number.MIN_VALUE)) found.push(`${name}${labels}: bounds`);
    if (
      !rises(
        buckets.map(({ value }) => value),
        0,
      )
    )
      found.push(`${name}${labels}: buckets fall`);
    if (count === undefined || count !== buckets.at(-1)?.value) found.push(`${name}${labels}: count`);
    if (!group.some(sample => sample.name.endsWith('_sum'))) found.push(`${name}${labels}: no sum`);
  }
  return found;
}

/** Returns the metrics and labels that a query uses. */
export interface Query {
  readonly metrics: readonly string[];
  /** Names of the labels in matchers and groupings. */
  readonly labels: readonly string[];
}

/** Reads a query with Prometheus' grammar. Throws if it is not one. */
export function readQuery(text: string): Query {
  const query = text.replaceAll('$__rate_interval', '5m');
  const metrics: string[] = [];
  const labels: string[] = [];
  parser.parse(query).iterate({
    enter: ({ type, name, from, to }) => {
      const said = query.slice(from, to);
      if (type.isError) throw new Error(`not PromQL at ${from}: ${text}`);
      if (name === 'Identifier') metrics.push(said);
      if (name === 'LabelName') labels.push(said);
    },
  });
  return { metrics, labels };
}
