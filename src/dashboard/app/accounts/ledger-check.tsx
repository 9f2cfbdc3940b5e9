import { createClient } from '@connectrpc/connect';
import { Button } from '@mantine/core';
import { useMutation } from '@tanstack/react-query';
import { AdminService, type VerifyLedgerResponse } from '../../../gen/tollgate/v1/admin_pb.ts';
import { transport } from '../data/rpc.ts';
import { durationText, timeText } from '../data/time.ts';
import { Problem } from '../parts/page.tsx';

const admin = createClient(AdminService, transport);

/** Checks every invariant of the ledger, only on demand, because a large ledger takes minutes. */
export function LedgerCheck() {
  const check = useMutation({ mutationFn: () => admin.verifyLedger({}) });
  return (
    <section className="panel" aria-label="Ledger">
      <div className="title">
        <h2>Ledger</h2>
        <Button size="xs" variant="default" loading={check.isPending} onClick={() => check.mutate()}>
          Verify the ledger
        </Button>
      </div>
      {check.error !== null && <Problem error={check.error} retry={() => check.mutate()} />}
      {check.data === undefined ? (
        <p className="quiet" role="status">
          {check.isPending
            ? 'Checking every invariant: balances, holds, records, sums, limits and the audit log. Requests continue meanwhile.'
            : 'Recomputes every balance, sum and limit from the records and compares them. Requests continue meanwhile.'}
        </p>
      ) : (
        <Result check={check.data} />
      )}
    </section>
  );
}

function Result({ check }: { readonly check: VerifyLedgerResponse }) {
  const { violations, startedAtMs, durationMs } = check;
  const when = `Checked at ${timeText(startedAtMs)}, in ${durationText(durationMs)}.`;
  if (violations.length === 0) {
    return (
      <p role="status">
        <strong className="settled">All invariants hold.</strong> <span className="quiet">{when}</span>
      </p>
    );
  }
  return (
    <div role="alert" className="problem">
      <p>{violations.length === 1 ? 'One invariant is violated.' : `${violations.length} invariants are violated.`}</p>
      <ul className="plain-list">
        {violations.map(violation => (
          <li key={violation}>{violation}</li>
        ))}
      </ul>
      <p className="quiet">{when} docs/operations.md says what to do.</p>
    </div>
  );
}
