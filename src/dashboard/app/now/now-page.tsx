import { useQuery as useCall } from '@connectrpc/connect-query';
import { useQuery } from '@tanstack/react-query';
import { createLazyRoute, Link } from '@tanstack/react-router';
import { AccountService, AnalyticsGranularity } from '../../../gen/tollgate/v1/account_pb.ts';
import type { RunningRequest, WatchNowResponse } from '../../../gen/tollgate/v1/dashboard_pb.ts';
import { RequestRows } from '../activity/request-rows.tsx';
import { addUp } from '../activity/sums.ts';
import { count, dollars } from '../data/money.ts';
import { curlCommand } from '../data/shell-words.ts';
import type { AccountSource } from '../data/source.ts';
import { nowMs } from '../data/time.ts';
import { useHour } from '../data/use-hour.ts';
import { may, useViewer } from '../data/viewer.ts';
import { LimitBar } from '../keys/limit-bar.tsx';
import { RouteState } from '../models/routes.tsx';
import { Amount, Duration, Moment } from '../parts/amount.tsx';
import { type Column, DataTable } from '../parts/data-table.tsx';
import { Empty, PageTitle, QueryResult, Tile, Waiting } from '../parts/page.tsx';
import { useLive } from '../shell/live-context.tsx';

const dayMs = 86_400_000;
const hoursOfDay = 24;
const latest = 50;

function NowPage() {
  const viewer = useViewer();
  const { message } = useLive();
  const { account, role } = viewer;
  return (
    <>
      <PageTitle
        name="Now"
        copyAs={{
          curl: curlCommand(viewer, role === 'holder' ? '/v1/key' : '/v1/account/balance'),
          ...(role === 'operator' && { cli: `tollgate accounts show ${viewer.accountId}` }),
        }}
      />
      {message === undefined ? <Waiting height={92} /> : <Tiles now={message} />}
      {message !== undefined && <Running now={message} />}
      {message !== undefined && <Errors now={message} />}
      {message !== undefined && role === 'operator' && <RestingRoutes now={message} />}
      {account === undefined ? <OwnLimits /> : may(viewer, 'limits:read') && <Limits source={account} />}
      <Latest />
    </>
  );
}

/** Returns the sums of this UTC day. */
function useToday() {
  const { requests } = useViewer();
  const startMs = BigInt(Math.floor(useHour() / hoursOfDay) * dayMs);
  return useQuery({
    queryKey: ['today', requests.name, startMs],
    queryFn: async ({ signal }) =>
      addUp((await requests.getAnalytics({ startMs, granularity: AnalyticsGranularity.DAY }, signal)).series),
  });
}

function Tiles({ now }: { readonly now: WatchNowResponse }) {
  const { funds, runningHeldNanoUsd } = now;
  const today = useToday();
  return (
    <dl className="tiles">
      {funds !== undefined && (
        <Tile name="Balance" note="without what keys and groups have of their own">
          <Amount nano={funds.balanceNanoUsd} />
        </Tile>
      )}
      <Tile name="Held" note={heldNote(now)} showsHeldMoney={runningHeldNanoUsd > 0n}>
        <Amount nano={runningHeldNanoUsd} />
      </Tile>
      <Tile name="Spent today (UTC)" note={today.data && `${count(today.data.requests)} requests`}>
        {today.data === undefined ? '…' : <Amount nano={today.data.cost} />}
      </Tile>
      <Tile name="Errors today (UTC)" note="requests that an upstream failed">
        {today.data === undefined ? '…' : count(today.data.failed)}
      </Tile>
    </dl>
  );
}

/** Says how many requests run and, if keys or groups pay too, how much of their holds is from the balance that is shown beside it. */
function heldNote({ funds, runningCount, runningHeldNanoUsd }: WatchNowResponse): string {
  const runs = `${count(runningCount)} ${runningCount === 1 ? 'request runs' : 'requests run'}`;
  if (funds === undefined || funds.heldNanoUsd === runningHeldNanoUsd) return runs;
  return `${runs}; ${dollars(funds.heldNanoUsd)} of it from this balance`;
}

const runningColumns: readonly Column<RunningRequest>[] = [
  {
    id: 'request',
    header: 'Request',
    width: 'minmax(220px, 1.4fr)',
    phone: 'lead',
    cell: ({ requestId }) => (
      <Link to="/activity/$requestId" params={{ requestId }} className="row-link">
        <code>{requestId}</code>
      </Link>
    ),
  },
  { id: 'model', header: 'Model', width: 'minmax(120px, 1fr)', phone: 'below', cell: ({ model }) => model },
  {
    id: 'provider',
    header: 'Answers',
    width: '130px',
    cell: ({ provider }) => (provider === '' ? 'waiting' : provider),
  },
  { id: 'tries', header: 'Attempts', width: '84px', isRight: true, cell: ({ attempts }) => attempts },
  {
    id: 'output',
    header: 'Output',
    width: '100px',
    isRight: true,
    cell: ({ outputTokens }) => (
      <>
        {count(outputTokens)} <span className="unit">tok</span>
      </>
    ),
  },
  {
    id: 'age',
    header: 'Runs for',
    width: '92px',
    isRight: true,
    phone: 'corner',
    cell: ({ createdAtMs }) => <Duration ms={Math.max(0, nowMs() - Number(createdAtMs))} />,
  },
  {
    id: 'held',
    header: 'Held',
    width: '120px',
    isRight: true,
    phone: 'side',
    nano: ({ heldNanoUsd }) => heldNanoUsd,
    cell: ({ heldNanoUsd }) => <Amount nano={heldNanoUsd} />,
  },
];

function Running({ now: { running, runningCount } }: { readonly now: WatchNowResponse }) {
  if (running.length === 0) return <p className="quiet">No request runs now.</p>;
  return (
    <>
      <h2>
        Running{' '}
        {runningCount > running.length && (
          <span className="small quiet">
            the newest {running.length} of {count(runningCount)}
          </span>
        )}
      </h2>
      <DataTable
        label="Running requests, newest first"
        columns={runningColumns}
        rows={running}
        rowKey={({ requestId }) => requestId}
      />
    </>
  );
}

function Errors({ now: { errors } }: { readonly now: WatchNowResponse }) {
  if (errors.length === 0) return null;
  return (
    <section className="panel" aria-label="Errors of the last hour">
      <h2>Errors of the last hour</h2>
      {errors.map(({ code, count: times, lastAtMs, tip }) => (
        <p key={code}>
          <span className="pill pill-failed">{count(times)} ×</span> <code>{code}</code>, last at{' '}
          <Moment ms={lastAtMs} />
          {tip !== '' && <span className="quiet"> {tip}</span>}
        </p>
      ))}
    </section>
  );
}

function RestingRoutes({ now: { restingRoutes } }: { readonly now: WatchNowResponse }) {
  return (
    <section className="panel" aria-label="Routes">
      <h2>Routes</h2>
      {restingRoutes.length === 0 && <p className="quiet">Every route is available.</p>}
      {restingRoutes.map(({ model, provider, state }) => (
        <p key={`${model} ${provider}`}>
          <RouteState state={state} />{' '}
          <Link to="/models" search={{ model }}>
            {model}
          </Link>{' '}
          at {provider}
        </p>
      ))}
    </section>
  );
}

function OwnLimits() {
  const own = useCall(AccountService.method.getOwnKey, {});
  return (
    <QueryResult query={own} height={92}>
      {({ spendMonthNanoUsd, limits, label, key }) => (
        <section className="panel stack" aria-label="Key">
          <span>
            {label} <code>{key}</code>: <Amount nano={spendMonthNanoUsd} /> this month (UTC)
          </span>
          {limits.length === 0 ? (
            <span className="quiet">No limit applies to this key.</span>
          ) : (
            limits.map(limit => <LimitBar key={`${limit.limitId}`} limit={limit} />)
          )}
        </section>
      )}
    </QueryResult>
  );
}

function Limits({ source }: { readonly source: AccountSource }) {
  const limits = useQuery({ queryKey: ['limits', source.name], queryFn: ({ signal }) => source.listLimits(signal) });
  if (limits.data?.length === 0) return null;
  return (
    <section className="panel" aria-label="Limits">
      <h2>Limits</h2>
      <QueryResult query={limits} height={60}>
        {list => (
          <div className="stack">
            {list.map(limit => (
              <LimitBar key={`${limit.limitId}`} limit={limit} />
            ))}
          </div>
        )}
      </QueryResult>
    </section>
  );
}

function Latest() {
  const { requests } = useViewer();
  const rows = useQuery({
    queryKey: ['latest', requests.name],
    queryFn: ({ signal }) => requests.listActivity({ limit: latest }, signal),
  });
  return (
    <>
      <h2>Latest settled requests</h2>
      <QueryResult query={rows} height={200}>
        {list =>
          list.length === 0 ? (
            <Empty title="No request yet">Send the first from the Playground.</Empty>
          ) : (
            <RequestRows rows={list} />
          )
        }
      </QueryResult>
    </>
  );
}

/** The page of the current state. */
export const Route = createLazyRoute('/now')({ component: NowPage });
