import { Code, ConnectError } from '@connectrpc/connect';
import { useQuery } from '@connectrpc/connect-query';
import { AdminService, Plan } from '../../../gen/tollgate/v1/admin_pb.ts';
import { count } from '../data/money.ts';
import { fullTime, untilText } from '../data/time.ts';
import { Tile } from '../parts/page.tsx';

/** The plan of an account: what is left of its tokens, and when its period ends. */
export function PlanPanel({ accountId }: { readonly accountId: bigint }) {
  const { data, error } = useQuery(AdminService.method.getSubscription, { accountId });
  const plan = data?.subscription;
  if (plan === undefined) {
    const isNone = error !== null && ConnectError.from(error).code === Code.NotFound;
    return (
      <Tile name="Plan" note={isNone ? 'requests are paid by balances' : 'not read yet'}>
        {isNone ? 'None' : '…'}
      </Tile>
    );
  }
  const left = plan.tokens - plan.tokensUsed - plan.tokensHeld;
  return (
    <Tile
      name={plan.plan === Plan.CORE_PRO ? 'Plan Core Pro, tokens left' : 'Plan Core, tokens left'}
      note={
        <span title={fullTime(plan.periodEndMs)}>
          of {count(plan.tokens)}; {plan.cancelled ? 'ends' : 'renews'} {untilText(plan.periodEndMs)}
        </span>
      }
    >
      {count(left)}
    </Tile>
  );
}
