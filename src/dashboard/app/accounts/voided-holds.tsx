import { useQuery } from '@connectrpc/connect-query';
import { AdminService } from '../../../gen/tollgate/v1/admin_pb.ts';
import { Amount, Moment } from '../parts/amount.tsx';
import { QueryResult } from '../parts/page.tsx';

/** Lists the holds that were voided without a charge, after a crash or because they expired. */
export function VoidedHolds() {
  const holds = useQuery(AdminService.method.listVoidedHolds, { limit: 20 });
  return (
    <section className="panel" aria-label="Voided holds">
      <h2>Holds voided without a charge</h2>
      <QueryResult query={holds} height={40}>
        {({ holds: list }) =>
          list.length === 0 ? (
            <p className="quiet">None: every request was settled or voided in time.</p>
          ) : (
            <div className="scroll" tabIndex={0} role="region" aria-label="Table: Holds">
              <table className="plain stacked">
                <thead>
                  <tr>
                    <th scope="col">Voided</th>
                    <th scope="col">Account</th>
                    <th scope="col">Model</th>
                    <th scope="col">Reason</th>
                    <th scope="col" className="right">
                      Amount
                    </th>
                  </tr>
                </thead>
                <tbody>
                  {list.map(({ id, voidedAtMs, accountId, model, reason, amountNanoUsd }) => (
                    <tr key={`${id}`}>
                      <th scope="row">
                        <Moment ms={voidedAtMs} />
                      </th>
                      <td data-name="Account">{`${accountId}`}</td>
                      <td data-name="Model">{model}</td>
                      <td data-name="Reason">{reason}</td>
                      <td data-name="Amount" className="right">
                        <Amount nano={amountNanoUsd} />
                      </td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </div>
          )
        }
      </QueryResult>
    </section>
  );
}
