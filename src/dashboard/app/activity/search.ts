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
export const divisions = {
  model: { name: 'Model', group: AnalyticsGroup.MODEL },
  key: { name: 'Key', group: AnalyticsGroup.API_KEY },
  group: { name: 'Group', group: AnalyticsGroup.GROUP },
  provider: { name: 'Provider', group: AnalyticsGroup.PROVIDER },
  endpoint: { name: 'Endpoint', group: AnalyticsGroup.ENDPOINT },
  end_user: { name: 'End user', group: AnalyticsGroup.END_USER },
  tag: { name: 'Tag', group: AnalyticsGroup.TAG },
} as const;
/** A dimension that sums are divided and rows filtered by. */
export type Division = keyof typeof divisions;

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

/** The filters of the activity page, from its address. Absent: any. `from` and `to` are UTC days, both included. */
export interface ActivitySearch {
  readonly period?: PeriodName | undefined;
  readonly from?: string | undefined;
  readonly to?: string | undefined;
  /** One hour of the period, in UTC: "2026-11-26T20". The rows and the totals are of it alone; the chart keeps the period. */
  readonly hour?: string | undefined;
  readonly by?: Division | undefined;
  readonly show?: Measure | undefined;
  readonly model?: string | undefined;
  readonly key?: number | undefined;
  readonly group?: number | undefined;
  readonly provider?: string | undefined;
  /** A path of the public interface. */
  readonly endpoint?: string | undefined;
  readonly end_user?: string | undefined;
  /** "name:value"; with `by=tag` only the name is used, to group by. */
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
    by: among('by', divisions),
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
  /** Its end is the present. */
  readonly isOpen: boolean;
}

/** Returns the span that the filters mean. Steps are UTC hours up to two days, else UTC days; the last one holds the present, `atMs`, unless a day was named. */
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

/** Returns the beginning of an hour of the address; undefined if it is none. */
function readHour(text: string | undefined): number | undefined {
  if (text === undefined || !/^\d{4}-\d\d-\d\dT\d\d$/.test(text)) return undefined;
  const ms = Date.parse(`${text}:00:00Z`);
  return Number.isNaN(ms) ? undefined : ms;
}

/** Returns the span of the rows and the totals: the chosen hour, compared with the hour before it, else the whole period. */
export function readChosenSpan({ hour }: ActivitySearch, span: Span): Span {
  const startMs = readHour(hour);
  if (startMs === undefined) return span;
  return { startMs, endMs: startMs + hourMs, stepMs: hourMs, previousMs: startMs - hourMs, isOpen: false };
}

/** The rows that the filters mean. */
export function toActivityQuery(search: ActivitySearch, { startMs, endMs, isOpen }: Span): ActivityQuery {
  return {
    startMs: BigInt(startMs),
    ...(!isOpen && { endMs: BigInt(endMs) }),
    ...toFilter(search),
  };
}

/** The filters of rows and sums; empty and 0 mean any. */
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

/** The dimensions that the filters narrow. */
export function filteredBy(search: ActivitySearch): readonly Division[] {
  const named = (Object.keys(divisions) as Division[]).filter(name => search[name] !== undefined);
  return named.filter(name => name !== 'tag' || search.tag?.includes(':') === true);
}

/** What the sums are divided by: the chosen dimension, else the first filtered one, else the model. */
export function dividedBy(search: ActivitySearch): Division {
  return search.by ?? filteredBy(search)[0] ?? 'model';
}

/** Returns whether sums are to be divided by a tag that is not named yet: then they are not divided. */
export function lacksTagName(search: ActivitySearch): boolean {
  return dividedBy(search) === 'tag' && readTagName(search) === '';
}

/** Returns the name of the filtered tag; '' if there is none. */
export function readTagName({ tag }: ActivitySearch): string {
  return tag?.split(':', 1)[0] ?? '';
}

/** The groups that the chart gives a colour of their own; the gateway adds up the others, of whom there can be thousands. */
export const shownGroups = 5;

/** What the shown groups have the most of. Of means, the chart shows one for all. */
const mostOf: Readonly<Record<Measure, AnalyticsMeasure>> = {
  spend: AnalyticsMeasure.UNSPECIFIED,
  requests: AnalyticsMeasure.REQUESTS,
  tokens: AnalyticsMeasure.TOKENS,
  errors: AnalyticsMeasure.FAILED,
  latency: AnalyticsMeasure.REQUESTS,
};

/** The sums that the filters mean. */
export function toAnalyticsQuery(search: ActivitySearch, span: Span): AnalyticsQuery {
  const by = dividedBy(search);
  return {
    startMs: BigInt(span.startMs),
    endMs: BigInt(span.endMs),
    granularity: span.stepMs === hourMs ? AnalyticsGranularity.HOUR : AnalyticsGranularity.DAY,
    groupBy: lacksTagName(search) ? AnalyticsGroup.UNSPECIFIED : divisions[by].group,
    tag: by === 'tag' ? readTagName(search) : '',
    groupsMax: shownGroups,
    most: mostOf[search.show ?? 'spend'],
    filter: toFilter(search),
  };
}
