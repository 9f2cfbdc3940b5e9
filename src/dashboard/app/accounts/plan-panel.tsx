import { Code, ConnectError, createClient } from '@connectrpc/connect';
import { Button, NativeSelect } from '@mantine/core';
import { useQuery } from '@connectrpc/connect-query';
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { type SubmitEvent, useState } from 'react';
import {
  AdminService,
  type ConfiguredPlan,
  Plan,
  PlanPeriod,
  type Subscription,
} from '../../../gen/tollgate/v1/admin_pb.ts';
import { count } from '../data/money.ts';
import { transport } from '../data/rpc.ts';
import { fullTime, untilText } from '../data/time.ts';
import { Amount } from '../parts/amount.tsx';
import { Dialog } from '../parts/dialog.tsx';
import { Problem, QueryResult } from '../parts/page.tsx';

const admin = createClient(AdminService, transport);
const planNames: Readonly<Partial<Record<Plan, string>>> = { [Plan.CORE]: 'Core', [Plan.CORE_PRO]: 'Core Pro' };
const periodNames: Readonly<Partial<Record<PlanPeriod, string>>> = {
  [PlanPeriod.BIWEEKLY]: 'two weeks',
  [PlanPeriod.MONTHLY]: 'a month',
};

/** Shows, starts and cancels the plan of an account. The plan is loaded only on demand: most accounts have none, and a browser logs the 404 as an error. */
export function PlanPanel({ accountId }: { readonly accountId: bigint }) {
  const client = useQueryClient();
  const [isRequested, setRequested] = useState(false);
  const [open, setOpen] = useState<'start' | 'cancel'>();
  const { data, error } = useQuery(AdminService.method.getSubscription, { accountId }, { enabled: isRequested });
  const isNone = error !== null && ConnectError.from(error).code === Code.NotFound;
  const plan = error === null ? data?.subscription : undefined;
  const close = (): void => setOpen(undefined);
  const changed = (): void => {
    setRequested(true);
    close();
    void client.invalidateQueries();
  };
  return (
    <section className="panel" aria-label="Plan">
      <div className="title">
        <h2>Plan</h2>
        <div className="actions">
          {!isRequested && (
            <Button size="xs" variant="default" onClick={() => setRequested(true)}>
              Show the plan
            </Button>
          )}
          {plan === undefined && (
            <Button size="xs" variant="default" onClick={() => setOpen('start')}>
              Start a plan
            </Button>
          )}
          {plan?.cancelled === false && (
            <Button size="xs" variant="default" onClick={() => setOpen('cancel')}>
              Cancel the plan
            </Button>
          )}
        </div>
      </div>
      {isNone && <p className="quiet">None: requests are paid from the balance.</p>}
      {error !== null && !isNone && <Problem error={error} />}
      {plan !== undefined && <PlanFacts plan={plan} />}
      {open === 'start' && <StartPlan accountId={accountId} onClose={close} onStarted={changed} />}
      {open === 'cancel' && <CancelPlan accountId={accountId} onClose={close} onCancelled={changed} />}
    </section>
  );
}

function PlanFacts({ plan }: { readonly plan: Subscription }) {
  const { tokens, tokensUsed, tokensHeld, freeLeftToday, period, periodEndMs, cancelled } = plan;
  return (
    <dl className="facts">
      <dt>Name</dt>
      <dd>
        {planNames[plan.plan] ?? 'unknown'}, every {(periodNames[period] ?? 'period').replace(/^a /, '')}
      </dd>
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

interface StartProps {
  readonly accountId: bigint;
  readonly onClose: () => void;
  readonly onStarted: () => void;
}

function StartPlan({ accountId, onClose, onStarted }: StartProps) {
  const plans = useQuery(AdminService.method.listPlans, {});
  return (
    <Dialog title={`Start a plan for account ${accountId}`} onClose={onClose}>
      <QueryResult query={plans} height={160}>
        {({ plans: list }) => <PlanForm accountId={accountId} plans={list} onStarted={onStarted} />}
      </QueryResult>
    </Dialog>
  );
}

function PlanForm({
  accountId,
  plans,
  onStarted,
}: Pick<StartProps, 'accountId' | 'onStarted'> & { readonly plans: readonly ConfiguredPlan[] }) {
  const [index, setIndex] = useState(0);
  const chosen = plans[index];
  const { mutate, error, isPending } = useMutation({
    mutationFn: () =>
      admin.startSubscription({ accountId, ...(chosen && { plan: chosen.plan, period: chosen.period }) }),
    onSuccess: onStarted,
  });
  const submit = (event: SubmitEvent): void => {
    event.preventDefault();
    mutate();
  };
  const choices = plans.map(({ plan, period }, place) => ({
    value: `${place}`,
    label: `${planNames[plan] ?? 'unknown'}, ${periodNames[period] ?? 'unknown'}`,
  }));
  return (
    <form className="form" onSubmit={submit}>
      {error !== null && <Problem error={error} />}
      <NativeSelect
        label="Plan and period"
        value={`${index}`}
        data={choices}
        onChange={event => setIndex(Number(event.currentTarget.value))}
      />
      {chosen !== undefined && (
        <dl className="facts">
          <dt>Price</dt>
          <dd>
            <Amount nano={chosen.priceNanoUsd} />, debited now and at each renewal
          </dd>
          <dt>Tokens</dt>
          <dd className="number">{count(chosen.tokens)}</dd>
          <dt>Free requests per day (UTC)</dt>
          <dd className="number">{chosen.freeDailyRequests}</dd>
        </dl>
      )}
      <Button type="submit" loading={isPending} disabled={chosen === undefined}>
        Start plan
      </Button>
    </form>
  );
}

interface CancelProps {
  readonly accountId: bigint;
  readonly onClose: () => void;
  readonly onCancelled: () => void;
}

function CancelPlan({ accountId, onClose, onCancelled }: CancelProps) {
  const { mutate, error, isPending } = useMutation({
    mutationFn: () => admin.cancelSubscription({ accountId }),
    onSuccess: onCancelled,
  });
  return (
    <Dialog title={`Cancel the plan of account ${accountId}?`} onClose={onClose}>
      <div className="form">
        {error !== null && <Problem error={error} />}
        <p>The plan pays for requests until its period ends, and does not renew. Its price is not refunded.</p>
        <Button color="red" loading={isPending} onClick={() => mutate()}>
          Cancel plan
        </Button>
      </div>
    </Dialog>
  );
}
