import { Button } from '@mantine/core';
import {
  type InfiniteData,
  keepPreviousData,
  useInfiniteQuery,
  type UseInfiniteQueryResult,
  useMutation,
  useQuery,
} from '@tanstack/react-query';
import { createLazyRoute, getRouteApi } from '@tanstack/react-router';
import { useMemo } from 'react';
import type { ActivityRecord } from '../../../gen/tollgate/v1/account_pb.ts';
import { count, dollars } from '../data/money.ts';
import { readFault } from '../data/rpc.ts';
import { durationText, zone } from '../data/time.ts';
import { useHour } from '../data/use-hour.ts';
import { useViewer } from '../data/viewer.ts';
import { Amount } from '../parts/amount.tsx';
import { Bars } from '../parts/bars.tsx';
import { Empty, PageTitle, QueryResult, Tile } from '../parts/page.tsx';
import { csvRowsMax, readCsv, saveFile } from './csv.ts';
import { Filters } from './filters.tsx';
import { findNextPage, newest, toPageQuery, withoutRepeats } from './older.ts';
import { listOtherWays } from './other-ways.ts';
import { RequestRows } from './request-rows.tsx';
import {
  type ActivitySearch,
  lacksTagName,
  measures,
  periods,
  readChosenSpan,
  readSpan,
  type Span,
  toActivityQuery,
  toAnalyticsQuery,
} from './search.ts';
import { addUp, compared, measured, sumBar, toChart, type Totals as SumTotals } from './sums.ts';
import { formatMeasure } from './format-measure.ts';
import { ChartLegend } from './chart-legend.tsx';

const route = getRouteApi('/activity');
const dayMs = 86_400_000;
const hourMs = 3_600_000;
const pageRows = 200;

function ActivityPage() {
  const search = route.useSearch();
  const viewer = useViewer();
  // A span that ends now moves forward each hour, so that the sums include every row of the list.
  const hour = useHour();
  const span = useMemo(() => readSpan(search, hour * hourMs), [search, hour]);
  const chosen = useMemo(() => readChosenSpan(search, span), [search, span]);
  return (
    <>
      <PageTitle name="Activity" copyAs={listOtherWays(viewer, search, chosen)}>
        <CsvButton search={search} span={chosen} />
      </PageTitle>
      <Filters search={search} />
      <Totals search={search} span={chosen} />
      <SumsChart search={search} span={span} />
      <Requests search={search} span={chosen} />
    </>
  );
}

interface PartProps {
  readonly search: ActivitySearch;
  readonly span: Span;
}

function CsvButton({ search, span }: PartProps) {
  const { requests } = useViewer();
  const save = useMutation({
    mutationFn: async () => {
      const { text, isCut } = await readCsv(requests, toActivityQuery(search, span));
      saveFile('activity.csv', text);
      return isCut;
    },
  });
  return (
    <>
      <span role="status" className={save.error === null ? 'small quiet' : 'small failed'}>
        {save.error !== null && readFault(save.error).message}
        {save.data === true && `The file has the newest ${count(csvRowsMax)} requests. The command line lists all.`}
      </span>
      <Button size="xs" variant="default" loading={save.isPending} onClick={() => save.mutate()}>
        CSV
      </Button>
    </>
  );
}

/** Reads the sums of a span and of the span before it. The two parts of the page that need them share the answers. */
function useSums({ search, span }: PartProps) {
  const { requests } = useViewer();
  const query = toAnalyticsQuery(search, span);
  const now = useQuery({
    queryKey: ['analytics', requests.name, query],
    queryFn: ({ signal }) => requests.getAnalytics(query, signal),
    placeholderData: keepPreviousData,
  });
  const earlier = { ...query, startMs: BigInt(span.previousMs), endMs: BigInt(span.startMs) };
  const before = useQuery({
    queryKey: ['analytics', requests.name, earlier],
    queryFn: ({ signal }) => requests.getAnalytics(earlier, signal),
    staleTime: Infinity,
  });
  return { now, before };
}

function Totals(props: PartProps) {
  const { now, before } = useSums(props);
  const previous = before.data && addUp(before.data.series);
  return (
    <QueryResult query={now} height={92}>
      {({ series }) => <Tiles now={addUp(series)} before={previous} />}
    </QueryResult>
  );
}

function Tiles({ now, before }: { readonly now: SumTotals; readonly before: SumTotals | undefined }) {
  const note = (read: (totals: SumTotals) => bigint, format: (value: bigint) => string): string =>
    before === undefined ? '…' : compared(read(now), read(before), format);
  return (
    <dl className="tiles">
      <Tile name="Spend" note={note(({ cost }) => cost, dollars)}>
        <Amount nano={now.cost} />
      </Tile>
      <Tile name="Requests" note={note(({ requests }) => requests, count)}>
        {count(now.requests)}
      </Tile>
      <Tile name="Tokens" note={note(({ tokens }) => tokens, count)}>
        {count(now.tokens)}
      </Tile>
      <Tile
        name="Errors"
        note={
          <>
            {note(({ failed }) => failed, count)}
            <br />
            {latencyNote(now, before)}
          </>
        }
      >
        {count(now.failed)}
      </Tile>
    </dl>
  );
}

/** Shows the mean latency, and that of the previous period. */
function latencyNote(now: SumTotals, before: SumTotals | undefined): string {
  if (now.requests === 0n) return 'no request yet';
  const mean = (totals: SumTotals): string => durationText(measured('latency', totals));
  const earlier = before === undefined || before.requests === 0n ? '' : ` (before: ${mean(before)})`;
  return `mean latency ${mean(now)}${earlier}`;
}

function SumsChart(props: PartProps) {
  const { now, before } = useSums(props);
  const { search, span } = props;
  const measure = search.show ?? 'spend';
  const earlier = { ...span, startMs: span.previousMs, endMs: span.startMs };
  const previous = before.data && toChart(before.data.series, earlier, measure).bars.map(sumBar);
  return (
    <QueryResult query={now} height={240}>
      {({ series }) => <ChartPanel {...props} chart={toChart(series, span, measure)} previous={previous} />}
    </QueryResult>
  );
}

interface ChartPanelProps extends PartProps {
  readonly chart: ReturnType<typeof toChart>;
  /** The sums of the previous period, one for each step. */
  readonly previous: readonly bigint[] | undefined;
}

function ChartPanel({ search, span, chart, previous }: ChartPanelProps) {
  const navigate = route.useNavigate();
  const measure = search.show ?? 'spend';
  const isDaily = span.stepMs === dayMs;
  const pick = (index: number): void => {
    const at = new Date(span.startMs + index * span.stepMs).toISOString();
    const [day, hour] = [at.slice(0, 10), at.slice(0, 13)];
    const change = isDaily
      ? { period: undefined, from: day, to: day }
      : { hour: hour === search.hour ? undefined : hour };
    void navigate({ search: before => ({ ...before, ...change }) });
  };
  const chosen = readChosenSpan(search, span);
  const hasBefore = previous?.some(value => value > 0n) === true;
  return (
    <section className="panel" aria-label="Chart">
      <h2>
        {measures[measure]}{' '}
        <span className="small quiet">
          by {isDaily ? 'UTC day; click a day to open it' : `hour, ${zone}; click an hour to filter by it`}
        </span>
      </h2>
      {lacksTagName(search) && (
        <p className="quiet small">Enter a tag’s name (team) in the field Tag to group by its values.</p>
      )}
      <Bars
        caption={`${measures[measure]}, ${search.from ?? periods[search.period ?? '24h'].name}`}
        bars={chart.bars}
        series={chart.series}
        before={hasBefore ? previous : undefined}
        chosen={chosen === span ? undefined : Math.floor((chosen.startMs - span.startMs) / span.stepMs)}
        format={formatMeasure(measure)}
        legend={!lacksTagName(search) && <ChartLegend series={chart.series} search={search} hasBefore={hasBefore} />}
        onPick={pick}
      />
    </section>
  );
}

function Requests({ search, span }: PartProps) {
  const { requests } = useViewer();
  const query = toActivityQuery(search, span);
  const pages = useInfiniteQuery({
    queryKey: ['activity', requests.name, query],
    queryFn: ({ pageParam, signal }) => requests.listActivity(toPageQuery(query, pageParam, pageRows), signal),
    initialPageParam: newest,
    getNextPageParam: (last, _all, start) => findNextPage(last, start, pageRows),
    placeholderData: keepPreviousData,
  });
  return (
    <QueryResult query={pages} height={240}>
      {({ pages: read }) => {
        const rows = withoutRepeats(read.flat());
        if (rows.length === 0) {
          return (
            <Empty title="No request in this period">
              Send one from the Playground, or choose a longer period and fewer filters.
            </Empty>
          );
        }
        return (
          <>
            <RequestRows rows={rows} />
            {pages.hasNextPage && <OlderButton pages={pages} />}
          </>
        );
      }}
    </QueryResult>
  );
}

type Pages = UseInfiniteQueryResult<InfiniteData<readonly ActivityRecord[]>>;

/** Reads the next page of rows. */
function OlderButton({ pages }: { readonly pages: Pages }) {
  const older = useMutation({
    mutationFn: async () => {
      const shown = pages.data?.pages.length;
      let now: Pick<Pages, 'data' | 'isError' | 'hasNextPage' | 'fetchNextPage'> = pages;
      // When money has moved, all pages that are shown are read again, in place of the next page if it is on its way. Then the next page is asked for once more.
      do {
        now = await now.fetchNextPage({ cancelRefetch: false });
      } while (!now.isError && now.hasNextPage && now.data?.pages.length === shown);
    },
  });
  return (
    <Button variant="default" size="xs" loading={older.isPending} onClick={() => older.mutate()}>
      Show older requests
    </Button>
  );
}

/** The page of settled requests and their sums. */
export const Route = createLazyRoute('/activity')({ component: ActivityPage });
