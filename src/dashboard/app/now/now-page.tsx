import { useQuery as useCall } from '@connectrpc/connect-query';
import { useQuery } from '@tanstack/react-query';
import { createLazyRoute, Link } from '@tanstack/react-router';
import { useMemo } from 'react';
import { AccountService, AnalyticsGranularity, RecordState } from '../../../gen/tollgate/v1/account_pb.ts';
import { AdminService } from '../../../gen/tollgate/v1/admin_pb.ts';
import { RequestRows } from '../activity/request-rows.tsx';
import { addUp } from '../activity/sums.ts';
import { count } from '../data/money.ts';
import { curlOf } from '../data/shell-words.ts';
import { nowMs } from '../data/time.ts';
import { type AccountSource } from '../data/source.ts';
import { may, useViewer } from '../data/viewer.ts';
import { LimitBar } from '../keys/limit-bar.tsx';
import { RouteState } from '../models/routes.tsx';
import { Amount } from '../parts/amount.tsx';
import { Empty, PageTitle, Shown, Tile } from '../parts/page.tsx';

const refreshMs = 1_000;
const dayMs = 86_400_000;
const latest = 50;

function NowPage() {
  const viewer = useViewer();
  const { account, role } = viewer;
  return (
    <>
      <PageTitle name="Now" as={{ curl: curlOf(viewer, role === 'holder' ? '/v1/key' : '/v1/account/balance') }} />
      {account === undefined ? <OwnTiles /> : <Tiles source={account} />}
      {account !== undefined && may(viewer, 'limits:read') && <Limits source={account} />}
      {role === 'operator' && <RouteHealth />}
      <Latest />
    </>
  );
}

/** Sums of this UTC day. */
function useToday() {
  const { requests } = useViewer();
  const startMs = useMemo(() => BigInt(Math.floor(nowMs() / dayMs) * dayMs), []);
  return useQuery({
    queryKey: ['today', requests.name, startMs],
    queryFn: async ({ signal }) =>
      addUp((await requests.getAnalytics({ startMs, granularity: AnalyticsGranularity.DAY }, signal)).series),
    refetchInterval: refreshMs,
  });
}

function Tiles({ source }: { readonly source: AccountSource }) {
  const balance = useQuery({
    queryKey: ['balance', source.name],
    queryFn: ({ signal }) => source.getBalance(signal),
    refetchInterval: refreshMs,
  });
  const today = useToday();
  return (
    <Shown of={balance} height={92}>
      {({ balanceNanoUsd, heldNanoUsd }) => (
        <dl className="tiles">
          <Tile name="Balance" note="without holds, and without what keys and groups have of their own">
            <Amount nano={balanceNanoUsd} />
          </Tile>
          {heldNanoUsd !== undefined && (
            <Tile
              name="Held"
              note={heldNanoUsd > 0n ? 'by requests that run now' : 'no request runs'}
              isHeld={heldNanoUsd > 0n}
            >
              <Amount nano={heldNanoUsd} />
            </Tile>
          )}
          <Tile name="Spent today (UTC)" note={today.data && `${count(today.data.requests)} requests`}>
            {today.data === undefined ? '…' : <Amount nano={today.data.cost} />}
          </Tile>
          <Tile name="Errors today (UTC)" note="requests that an upstream failed">
            {today.data === undefined ? '…' : count(today.data.failed)}
          </Tile>
        </dl>
      )}
    </Shown>
  );
}

function OwnTiles() {
  const own = useCall(AccountService.method.getOwnKey, {}, { refetchInterval: refreshMs });
  return (
    <Shown of={own} height={92}>
      {({ spendTodayNanoUsd, spendMonthNanoUsd, limits, label, key }) => (
        <>
          <p>
            {label} <code>{key}</code>
          </p>
          <dl className="tiles">
            <Tile name="Spent today (UTC)" note="settled">
              <Amount nano={spendTodayNanoUsd} />
            </Tile>
            <Tile name="Spent this month (UTC)" note="settled">
              <Amount nano={spendMonthNanoUsd} />
            </Tile>
          </dl>
          <section className="panel stack" aria-label="Limits">
            {limits.length === 0 ? (
              <p className="quiet">No limit binds this key.</p>
            ) : (
              limits.map(limit => <LimitBar key={`${limit.limitId}`} limit={limit} />)
            )}
          </section>
        </>
      )}
    </Shown>
  );
}

function Limits({ source }: { readonly source: AccountSource }) {
  const limits = useQuery({
    queryKey: ['limits', source.name],
    queryFn: ({ signal }) => source.listLimits(signal),
    refetchInterval: refreshMs,
  });
  if (limits.data?.length === 0) return null;
  return (
    <section className="panel" aria-label="Limits">
      <h2>Limits</h2>
      <Shown of={limits} height={60}>
        {list => (
          <div className="stack">
            {list.map(limit => (
              <LimitBar key={`${limit.limitId}`} limit={limit} />
            ))}
          </div>
        )}
      </Shown>
    </section>
  );
}

function RouteHealth() {
  const routes = useCall(AdminService.method.listRoutes, {}, { refetchInterval: refreshMs });
  return (
    <section className="panel" aria-label="Routes">
      <h2>Routes</h2>
      <Shown of={routes} height={40}>
        {({ routes: list }) => {
          const ill = list.filter(({ state }) => state !== 'available');
          if (list.length === 0) return <p className="quiet">No provider is configured; the built-in models answer.</p>;
          return (
            <>
              <p>
                {count(list.length - ill.length)} of {count(list.length)} routes are available.
              </p>
              {ill.map(({ model, provider, state, lastError }) => (
                <p key={`${model} ${provider}`} className="small">
                  <RouteState state={state} />{' '}
                  <Link to="/models" search={{ model }}>
                    {model}
                  </Link>{' '}
                  at {provider}:{' '}
                  {lastError === undefined ? 'no error known' : `${lastError.result} ${lastError.message}`}
                </p>
              ))}
            </>
          );
        }}
      </Shown>
    </section>
  );
}

function Latest() {
  const { requests } = useViewer();
  const rows = useQuery({
    queryKey: ['latest', requests.name],
    queryFn: ({ signal }) => requests.listActivity({ limit: latest }, signal),
    refetchInterval: refreshMs,
  });
  return (
    <>
      <h2>Settled last</h2>
      <Shown of={rows} height={200}>
        {list => {
          const failed = list.filter(({ state }) => state === RecordState.UPSTREAM_FAILED).length;
          if (list.length === 0) return <Empty title="No request yet">Send the first from the Playground.</Empty>;
          return (
            <>
              {failed > 0 && (
                <p className="failed">
                  {failed} of the last {list.length} requests failed upstream.
                </p>
              )}
              <RequestRows rows={list} />
            </>
          );
        }}
      </Shown>
    </>
  );
}

/** The page of what happens now. */
export const Route = createLazyRoute('/now')({ component: NowPage });
