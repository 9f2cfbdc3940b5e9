import { Code, ConnectError } from '@connectrpc/connect';
import { Button } from '@mantine/core';
import { useQuery } from '@connectrpc/connect-query';
import { useState } from 'react';
import { AdminService, Plan, type Subscription } from '../../../gen/tollgate/v1/admin_pb.ts';
import { count } from '../data/money.ts';
import { fullTime, untilText } from '../data/time.ts';
import { Problem } from '../parts/page.tsx';

/** The plan of an account, read on demand: most accounts have none, and a browser logs the 404 as an error. */
export function PlanPanel({ accountId }: { readonly accountId: bigint }) {
  const [isRequested, setRequested] = useState(false);
  const { data, error } = useQuery(AdminService.method.getSubscription, { accountId }, { enabled: isRequested });
  const isNone = error !== null && ConnectError.from(error).code === Code.NotFound;
  return (
    <section className="panel" aria-label="Plan">
      <h2>Plan</h2>
      {!isRequested && (
        <Button size="xs" variant="default" onClick={() => setRequested(true)}>
          Show the plan
        </Button>
      )}
      {isNone && <p className="quiet">None: requests are paid by balances.</p>}
      {error !== null && !isNone && <Problem error={error} />}
      {data?.subscription !== undefined && <PlanFacts plan={data.subscription} />}
    </section>
  );
}

function PlanFacts({ plan }: { readonly plan: Subscription }) {
  const { tokens, tokensUsed, tokensHeld, freeLeftToday, periodEndMs, cancelled } = plan;
  return (
    <dl className="facts">
      <dt>Name</dt>
      <dd>{plan.plan === Plan.CORE_PRO ? 'Core Pro' : 'Core'}</dd>
      <dt>Tokens left</dt>
      <dd className="number">
        {count(tokens - tokensUsed - tokensHeld)} of {count(tokens)}
        {tokensHeld > 0n && `, ${count(tokensHeld)} held`}
      </dd>
      <dt>Free requests left today (UTC)</dt>
      <dd className="number">{freeLeftToday}</dd>
      <dt>{cancelled ? 'Ends' : 'Renews'}</dt>
      <dd title={fullTime(periodEndMs)}>{untilText(periodEndMs)}</dd>
    </dl>
  );
}
