import { Button } from '@mantine/core';
import { keepPreviousData, useInfiniteQuery, useQuery } from '@tanstack/react-query';
import { createLazyRoute, getRouteApi } from '@tanstack/react-router';
import { useMemo, useState } from 'react';
import { count } from '../data/money.ts';
import { durationText, zone } from '../data/time.ts';
import { useHour } from '../data/use-hour.ts';
import { useViewer } from '../data/viewer.ts';
import { Amount } from '../parts/amount.tsx';
import { Bars } from '../parts/bars.tsx';
import { Empty, PageTitle, QueryResult, Tile } from '../parts/page.tsx';
import { readCsv, saveFile } from './csv.ts';
import { Filters } from './filters.tsx';
import { listOtherWays } from './other-ways.ts';
import { RequestRows } from './request-rows.tsx';
import {
  type ActivitySearch,
  lacksTagName,
  measures,
  periods,
  readSpan,
  type Span,
  toActivityQuery,
  toAnalyticsQuery,
} from './search.ts';
import { addUp, compared, measured, toChart, type Totals } from './sums.ts';
import { formatMeasure } from './format-measure.ts';
import { ChartLegend } from './chart-legend.tsx';

const route = getRouteApi('/activity');
const dayMs = 86_400_000;
const hourMs = 3_600_000;
const pageRows = 200;

function ActivityPage() {
  const search = route.useSearch();
  const viewer = useViewer();
  // Filters decide the span; one that ends now moves on with the hour, so that the sums have every row of the list.
  const hour = useHour();
  const span = useMemo(() => readSpan(search, hour * hourMs), [search, hour]);
  return (
    <>
      <PageTitle name="Activity" copyAs={listOtherWays(viewer, search, span)}>
        <CsvButton search={search} span={span} />
      </PageTitle>
      <Filters search={search} />
      <Sums search={search} span={span} />
      <Requests search={search} span={span} />
    </>
  );
}

interface PartProps {
  readonly search: ActivitySearch;
  readonly span: Span;
}

function CsvButton({ search, span }: PartProps) {
  const { requests } = useViewer();
  const [isReading, setReading] = useState(false);
  const save = async (): Promise<void> => {
    setReading(true);
    try {
      saveFile('activity.csv', await readCsv(requests, toActivityQuery(search, span)));
    } finally {
      setReading(false);
    }
  };
  return (
    <Button size="xs" variant="default" loading={isReading} onClick={() => void save()}>
      CSV
    </Button>
  );
}

function Sums({ search, span }: PartProps) {
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
  const previous = before.data && addUp(before.data.series);
  return (
    <QueryResult query={now} height={340}>
      {({ series }) => (
        <>
          <Tiles now={addUp(series)} before={previous} />
          <SumsChart search={search} span={span} chart={toChart(series, span, search.show ?? 'spend')} />
        </>
      )}
    </QueryResult>
  );
}

function Tiles({ now, before }: { readonly now: Totals; readonly before: Totals | undefined }) {
  const note = (read: (totals: Totals) => bigint): string =>
    before === undefined ? '…' : compared(read(now), read(before));
  const mean = measured('latency', now);
  return (
    <dl className="tiles">
      <Tile name="Spend" note={note(({ cost }) => cost)}>
        <Amount nano={now.cost} />
      </Tile>
      <Tile name="Requests" note={note(({ requests }) => requests)}>
        {count(now.requests)}
      </Tile>
      <Tile name="Tokens" note={note(({ tokens }) => tokens)}>
        {count(now.tokens)}
      </Tile>
      <Tile name="Errors" note={now.requests === 0n ? 'no request yet' : `mean latency ${durationText(mean)}`}>
        {count(now.failed)}
      </Tile>
    </dl>
  );
}

function SumsChart({ search, span, chart }: PartProps & { readonly chart: ReturnType<typeof toChart> }) {
  const navigate = route.useNavigate();
  const measure = search.show ?? 'spend';
  const isDaily = span.stepMs === dayMs;
  const pick = (index: number): void => {
    const day = new Date(span.startMs + index * span.stepMs).toISOString().slice(0, 10);
    void navigate({ search: before => ({ ...before, period: undefined, from: day, to: day }) });
  };
  return (
    <section className="panel" aria-label="Chart">
      <h2>
        {measures[measure]}{' '}
        <span className="small quiet">by {isDaily ? 'UTC day; click a day to open it' : `hour, ${zone}`}</span>
      </h2>
      {lacksTagName(search) && (
        <p className="quiet small">Write a tag’s name (team) into the field Tag to divide by its values.</p>
      )}
      <Bars
        caption={`${measures[measure]}, ${search.from ?? periods[search.period ?? '24h'].name}`}
        bars={chart.bars}
        series={chart.series}
        format={formatMeasure(measure)}
        legend={!lacksTagName(search) && <ChartLegend series={chart.series} search={search} />}
        {...(isDaily && { onPick: pick })}
      />
    </section>
  );
}

function Requests({ search, span }: PartProps) {
  const { requests } = useViewer();
  const query = toActivityQuery(search, span);
  const pages = useInfiniteQuery({
    queryKey: ['activity', requests.name, query],
    queryFn: ({ pageParam, signal }) => requests.listActivity({ ...query, limit: pageRows, offset: pageParam }, signal),
    initialPageParam: 0,
    getNextPageParam: (last, all) => (last.length < pageRows ? undefined : all.length * pageRows),
    placeholderData: keepPreviousData,
  });
  return (
    <QueryResult query={pages} height={240}>
      {({ pages: read }) => {
        const rows = [...new Map(read.flat().map(record => [record.requestId, record])).values()];
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
            {pages.hasNextPage && (
              <Button
                variant="default"
                size="xs"
                loading={pages.isFetchingNextPage}
                onClick={() => void pages.fetchNextPage()}
              >
                Show older requests
              </Button>
            )}
          </>
        );
      }}
    </QueryResult>
  );
}

/** The page of settled requests and their sums. */
export const Route = createLazyRoute('/activity')({ component: ActivityPage });
