import { AnalyticsGranularity, AnalyticsGroup, AnalyticsMeasure } from '../../../gen/tollgate/v1/account_pb.ts';
import type { ActivityQuery, AnalyticsQuery } from '../data/source.ts';

const hourMs = 3_600_000;
const dayMs = 24 * hourMs;

/** Periods that end now. */
export const periods = {
  '24h': { name: 'Last 24 hours', steps: 24, stepMs: hourMs },
  '7d': { name: 'Last 7 days', steps: 7, stepMs: dayMs },
  '30d': { name: 'Last 30 days', steps: 30, stepMs: dayMs },
  '90d': { name: 'Last 90 days', steps: 90, stepMs: dayMs },
} as const;
/** The name of a period that ends now. */
export type PeriodName = keyof typeof periods;

/** The values that sums can be grouped by. */
export const groupings = {
  model: { name: 'Model', group: AnalyticsGroup.MODEL },
  key: { name: 'Key', group: AnalyticsGroup.API_KEY },
  group: { name: 'Group', group: AnalyticsGroup.GROUP },
  provider: { name: 'Provider', group: AnalyticsGroup.PROVIDER },
  endpoint: { name: 'Endpoint', group: AnalyticsGroup.ENDPOINT },
  end_user: { name: 'End user', group: AnalyticsGroup.END_USER },
  tag: { name: 'Tag', group: AnalyticsGroup.TAG },
} as const;
/** A dimension by which sums can be grouped and rows filtered. */
export type Grouping = keyof typeof groupings;

/** The measures of the chart. */
export const measures = {
  spend: 'Spend',
  requests: 'Requests',
  tokens: 'Tokens',
  errors: 'Errors',
  latency: 'Mean latency',
} as const;
/** The name of a measure. */
export type Measure = keyof typeof measures;

/** The filters of the activity page, from its address; an absent one filters nothing. `from` and `to` are UTC days, both included. */
export interface ActivitySearch {
  readonly period?: PeriodName | undefined;
  readonly from?: string | undefined;
  readonly to?: string | undefined;
  /** One hour of the period, in UTC: "2026-11-26T20". The rows and the totals cover only it; the chart still shows the whole period. */
  readonly hour?: string | undefined;
  readonly by?: Grouping | undefined;
  readonly show?: Measure | undefined;
  readonly model?: string | undefined;
  readonly key?: number | undefined;
  readonly group?: number | undefined;
  readonly provider?: string | undefined;
  /** A path of the public interface. */
  readonly endpoint?: string | undefined;
  readonly end_user?: string | undefined;
  /** "name:value". With `by=tag` sums are grouped by the values of the tag with this name. */
  readonly tag?: string | undefined;
}

/** Reads the address; unknown values are ignored. */
export function readActivitySearch(search: Record<string, unknown>): ActivitySearch {
  const text = (name: string): string | undefined => {
    const value = search[name];
    return (typeof value === 'string' && value !== '') || typeof value === 'number' ? String(value) : undefined;
  };
  const among = <Name extends string>(name: string, table: Readonly<Record<Name, unknown>>): Name | undefined => {
    const value = text(name);
    return value !== undefined && Object.hasOwn(table, value) ? (value as Name) : undefined;
  };
  const day = (name: string): string | undefined =>
    /^\d{4}-\d\d-\d\d$/.test(text(name) ?? '') ? text(name) : undefined;
  const id = (name: string): number | undefined =>
    /^[1-9]\d{0,14}$/.test(text(name) ?? '') ? Number(text(name)) : undefined;
  const read = {
    period: among('period', periods),
    from: day('from'),
    to: day('to'),
    hour: readHour(text('hour')) === undefined ? undefined : text('hour'),
    by: among('by', groupings),
    show: among('show', measures),
    model: text('model'),
    key: id('key'),
    group: id('group'),
    provider: text('provider'),
    endpoint: text('endpoint'),
    end_user: text('end_user'),
    tag: text('tag'),
  };
  return Object.fromEntries(Object.entries(read).filter(([, value]) => value !== undefined));
}

/** A span of time in equal steps, and the same length before it. Milliseconds since 1970 UTC. */
export interface Span {
  readonly startMs: number;
  readonly endMs: number;
  readonly stepMs: number;
  readonly previousMs: number;
  /** True if the span ends now. */
  readonly isOpen: boolean;
}

/** Returns the span that the filters select. Steps are UTC hours for up to two days, else UTC days. The last step contains the present, `atMs`, unless `from` or `to` is given. */
export function readSpan({ period, from, to }: ActivitySearch, atMs: number): Span {
  if (from !== undefined || to !== undefined) {
    const first = Date.parse(from ?? to ?? '');
    const endMs = Math.max(Date.parse(to ?? from ?? '') + dayMs, first + dayMs);
    const isHourly = endMs - first <= 2 * dayMs;
    return {
      startMs: first,
      endMs,
      stepMs: isHourly ? hourMs : dayMs,
      previousMs: first - (endMs - first),
      isOpen: false,
    };
  }
  const { steps, stepMs } = periods[period ?? '24h'];
  const endMs = (Math.floor(atMs / stepMs) + 1) * stepMs;
  const startMs = endMs - steps * stepMs;
  return { startMs, endMs, stepMs, previousMs: startMs - steps * stepMs, isOpen: true };
}

/** Returns the beginning of an hour from the page's address; undefined if the text is not an hour. */
function readHour(text: string | undefined): number | undefined {
  if (text === undefined || !/^\d{4}-\d\d-\d\dT\d\d$/.test(text)) return undefined;
  const ms = Date.parse(`${text}:00:00Z`);
  return Number.isNaN(ms) ? undefined : ms;
}

/** Returns the span of the rows and the totals: the chosen hour, compared with the hour before it; without one, the whole period. */
export function readChosenSpan({ hour }: ActivitySearch, span: Span): Span {
  const startMs = readHour(hour);
  if (startMs === undefined) return span;
  return { startMs, endMs: startMs + hourMs, stepMs: hourMs, previousMs: startMs - hourMs, isOpen: false };
}

/** Returns the query for the rows that the filters select. */
export function toActivityQuery(search: ActivitySearch, { startMs, endMs, isOpen }: Span): ActivityQuery {
  return {
    startMs: BigInt(startMs),
    ...(!isOpen && { endMs: BigInt(endMs) }),
    ...toFilter(search),
  };
}

/** Returns the filters of a query for rows or sums; empty and 0 filter nothing. */
function toFilter(search: ActivitySearch) {
  return {
    model: search.model ?? '',
    apiKeyId: BigInt(search.key ?? 0),
    groupId: BigInt(search.group ?? 0),
    provider: search.provider ?? '',
    endpoint: search.endpoint ?? '',
    endUser: search.end_user ?? '',
    tag: search.tag?.includes(':') === true ? search.tag : '',
  };
}

/** Returns the dimensions that are filtered. */
export function filteredBy(search: ActivitySearch): readonly Grouping[] {
  const named = (Object.keys(groupings) as Grouping[]).filter(name => search[name] !== undefined);
  return named.filter(name => name !== 'tag' || search.tag?.includes(':') === true);
}

/** Returns the dimension that the sums are grouped by: the chosen one, else the first filtered one, else the model. */
export function groupedBy(search: ActivitySearch): Grouping {
  return search.by ?? filteredBy(search)[0] ?? 'model';
}

/** Returns true if the sums should be grouped by a tag whose name is not entered yet; then they are not grouped. */
export function lacksTagName(search: ActivitySearch): boolean {
  return groupedBy(search) === 'tag' && readTagName(search) === '';
}

/** Returns the name of the filtered tag; '' if there is none. */
export function readTagName({ tag }: ActivitySearch): string {
  return tag?.split(':', 1)[0] ?? '';
}

/** How many groups have a colour in the chart. The gateway adds up the others, because there can be thousands. */
export const shownGroups = 5;

/** The measure that decides which groups are shown: those with the most of it. A mean is shown only for all groups together. */
const mostOf: Readonly<Record<Measure, AnalyticsMeasure>> = {
  spend: AnalyticsMeasure.UNSPECIFIED,
  requests: AnalyticsMeasure.REQUESTS,
  tokens: AnalyticsMeasure.TOKENS,
  errors: AnalyticsMeasure.FAILED,
  latency: AnalyticsMeasure.REQUESTS,
};

/** Returns the query for the sums that the filters select. */
export function toAnalyticsQuery(search: ActivitySearch, span: Span): AnalyticsQuery {
  const by = groupedBy(search);
  return {
    startMs: BigInt(span.startMs),
    endMs: BigInt(span.endMs),
    granularity: span.stepMs === hourMs ? AnalyticsGranularity.HOUR : AnalyticsGranularity.DAY,
    groupBy: lacksTagName(search) ? AnalyticsGroup.UNSPECIFIED : groupings[by].group,
    tag: by === 'tag' ? readTagName(search) : '',
    groupsMax: shownGroups,
    most: mostOf[search.show ?? 'spend'],
    filter: toFilter(search),
  };
}
