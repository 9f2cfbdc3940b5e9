import { useQuery } from '@tanstack/react-query';
import { createLazyRoute, getRouteApi, Link } from '@tanstack/react-router';
import { type ActivityRecord, type CostBucket, Payer } from '../../../gen/tollgate/v1/account_pb.ts';
import { ServiceTier } from '../../../gen/tollgate/v1/request_pb.ts';
import { UsageSource } from '../../../gen/tollgate/v1/event_pb.ts';
import type { RunningRequest } from '../../../gen/tollgate/v1/dashboard_pb.ts';
import { useLive } from '../shell/live-context.tsx';
import { StateWord } from '../activity/states.tsx';
import { count } from '../data/money.ts';
import { curlCommand } from '../data/shell-words.ts';
import { fullTime } from '../data/time.ts';
import { useViewer } from '../data/viewer.ts';
import { Amount, Duration } from '../parts/amount.tsx';
import { CopyButton } from '../parts/copy.tsx';
import { PageTitle, QueryResult } from '../parts/page.tsx';
import { Timeline, Attempts } from './timeline.tsx';
import { Translation } from './translation.tsx';
import { attoText, formula, lineAtto, priceText, roundToNano, totalAtto } from './receipt.ts';

const route = getRouteApi('/activity/$requestId');

function RequestPage() {
  const { requestId } = route.useParams();
  const viewer = useViewer();
  const { requests, role, accountId } = viewer;
  const running = useLive().message?.running.find(each => each.requestId === requestId);
  const record = useQuery({
    queryKey: ['record', requests.name, requestId],
    queryFn: ({ signal }) => requests.getActivity(requestId, signal),
    enabled: running === undefined,
  });
  const path = `${role === 'holder' ? '/v1/key' : '/v1/account'}/activity/${encodeURIComponent(requestId)}`;
  const ways = {
    curl: curlCommand(viewer, path),
    ...(role === 'operator' && { cli: `tollgate requests show ${requestId} --account ${accountId}` }),
  };
  return (
    <>
      <PageTitle name="Request" copyAs={ways}>
        <Link to="/activity" className="small">
          All requests
        </Link>
      </PageTitle>
      <p className="actions">
        <code>{requestId}</code> <CopyButton text={requestId} label="the request’s id" />
      </p>
      {running !== undefined && <RunningPanel request={running} />}
      {running === undefined && (
        <QueryResult query={record} height={320}>
          {found =>
            found && (
              <>
                <Receipt record={found} />
                {found.timeline !== undefined && <Timeline record={found} timeline={found.timeline} />}
                {found.timeline !== undefined && <Attempts record={found} timeline={found.timeline} />}
                <Facts record={found} />
                <Translation requestId={requestId} apiKeyId={found.apiKeyId} hasRecord />
              </>
            )
          }
        </QueryResult>
      )}
      {running === undefined && record.isError && (
        <Translation requestId={requestId} apiKeyId={viewer.apiKeyId} hasRecord={false} />
      )}
    </>
  );
}

/** Shows a running request. Its hold grows with the output; the unused part is released when the request settles. */
function RunningPanel({ request }: { readonly request: RunningRequest }) {
  const { model, heldNanoUsd, outputTokens, provider, attempts, createdAtMs } = request;
  return (
    <section className="panel" aria-label="Running">
      <h2>
        Running <span className="pill pill-held">held</span>
      </h2>
      <dl className="facts">
        <dt>Held now</dt>
        <dd>
          <Amount nano={heldNanoUsd} />
        </dd>
        <dt>Output so far</dt>
        <dd className="number">about {count(outputTokens)} tokens</dd>
        <dt>Model</dt>
        <dd>{model}</dd>
        <dt>Provider</dt>
        <dd>
          {provider === '' ? 'none yet' : provider}, attempt {attempts}
        </dd>
        <dt>Admitted</dt>
        <dd>{fullTime(createdAtMs)}</dd>
      </dl>
    </section>
  );
}

const payers: Readonly<Record<Payer, string>> = {
  [Payer.UNSPECIFIED]: '',
  [Payer.FREE]: 'no one: free',
  [Payer.SUBSCRIPTION]: 'the plan',
  [Payer.KEY_BALANCE]: 'the key’s balance',
  [Payer.ACCOUNT]: 'the account',
  [Payer.GROUP_BALANCE]: 'the group’s balance',
};
const kinds: Readonly<Record<string, string>> = {
  input: 'Input',
  cache_read: 'Read from cache',
  cache_write_5m: 'Written to cache, 5 min',
  cache_write_1h: 'Written to cache, 1 h',
  output: 'Output',
  image: 'Images',
};

function Receipt({ record }: { readonly record: ActivityRecord }) {
  const exact = totalAtto(record.buckets);
  const rounded = roundToNano(exact);
  return (
    <section className="panel" aria-label="Receipt">
      <h2>Receipt</h2>
      <p className="number">{formula(record)}</p>
      <div className="scroll" tabIndex={0} role="region" aria-label="Lines of the receipt">
        <table className="plain stacked">
          <thead>
            <tr>
              <th scope="col">Bucket</th>
              <th scope="col" className="right">
                Count
              </th>
              <th scope="col" className="right">
                Price
              </th>
              <th scope="col" className="right">
                Multiplier
              </th>
              <th scope="col" className="right">
                Discount
              </th>
              <th scope="col" className="right">
                Exact sum
              </th>
              <th scope="col">Paid by</th>
            </tr>
          </thead>
          <tbody>
            {record.buckets.map(bucket => (
              <ReceiptLine key={`${bucket.kind} ${bucket.paidBy} ${bucket.pricePicoUsd}`} bucket={bucket} />
            ))}
          </tbody>
          <tfoot>
            <SumLine name="Exact sum of all lines" value={attoText(exact)} />
            <SumLine name="Rounded once, half up, to the nano-dollar" value={<Amount nano={rounded} />} />
            {record.writtenOffNanoUsd > 0n && (
              <SumLine name="Written off: no funds covered it" value={<Amount nano={-record.writtenOffNanoUsd} />} />
            )}
            <SumLine name="Debited" value={<Amount nano={record.costNanoUsd} />} />
          </tfoot>
        </table>
      </div>
    </section>
  );
}

function ReceiptLine({ bucket }: { readonly bucket: CostBucket }) {
  return (
    <tr>
      <th scope="row">{kinds[bucket.kind] ?? bucket.kind}</th>
      <td data-name="Count" className="right">
        {count(bucket.tokens)}
      </td>
      <td data-name="Price" className="right">
        {priceText(bucket)}
      </td>
      <td data-name="Multiplier" className="right">
        × {bucket.multiplierPermille / 1000}
      </td>
      <td data-name="Discount" className="right">
        {bucket.discountPermille === 0 ? '–' : `− ${bucket.discountPermille / 10} %`}
      </td>
      <td data-name="Exact sum" className="right">
        {attoText(lineAtto(bucket))}
      </td>
      <td data-name="Paid by">{payers[bucket.paidBy] ?? 'another'}</td>
    </tr>
  );
}

function SumLine({ name, value }: { readonly name: string; readonly value: React.ReactNode }) {
  return (
    <tr>
      <th scope="row" colSpan={5}>
        {name}
      </th>
      <td className="right">{value}</td>
      <td />
    </tr>
  );
}

const tiers: Readonly<Record<ServiceTier, string>> = {
  [ServiceTier.UNSPECIFIED]: 'standard',
  [ServiceTier.DEFAULT]: 'standard',
  [ServiceTier.FLEX]: 'flex',
  [ServiceTier.PRIORITY]: 'priority',
  [ServiceTier.NAMED]: 'another',
};

function Facts({ record }: { readonly record: ActivityRecord }) {
  const counted =
    record.usageSource === UsageSource.REPORTED
      ? 'by the provider'
      : 'by the gateway, since the provider reported no usage';
  return (
    <section className="panel" aria-label="Facts">
      <h2>Facts</h2>
      <dl className="facts">
        <dt>State</dt>
        <dd>
          <StateWord state={record.state} />
        </dd>
        <dt>Model</dt>
        <dd>
          <Link to="/activity" search={{ model: record.model }}>
            {record.model}
          </Link>
        </dd>
        <dt>Key</dt>
        <dd>
          <Link to="/activity" search={{ key: Number(record.apiKeyId) }}>
            {`${record.apiKeyId}`}
          </Link>
        </dd>
        <dt>Admitted</dt>
        <dd>{fullTime(record.createdAtMs)}</dd>
        <dt>Took</dt>
        <dd>
          <Duration ms={record.latencyMs} />
        </dd>
        <dt>Tokens counted</dt>
        <dd>{counted}</dd>
        <dt>Tier</dt>
        <dd>{record.tierName ?? tiers[record.serviceTier]}</dd>
        {record.unpriced.length > 0 && (
          <>
            <dt>Without a price</dt>
            <dd>{record.unpriced.join(', ')}</dd>
          </>
        )}
        {record.endUser !== undefined && (
          <>
            <dt>End user</dt>
            <dd>{record.endUser}</dd>
          </>
        )}
        {Object.entries(record.tags).map(([name, value]) => (
          <Tag key={name} name={name} value={value} />
        ))}
      </dl>
    </section>
  );
}

function Tag({ name, value }: { readonly name: string; readonly value: string }) {
  return (
    <>
      <dt>Tag {name}</dt>
      <dd>
        <Link to="/activity" search={{ tag: `${name}:${value}` }}>
          {value}
        </Link>
      </dd>
    </>
  );
}

/** The page of one request, running or settled. */
export const Route = createLazyRoute('/activity/$requestId')({ component: RequestPage });
