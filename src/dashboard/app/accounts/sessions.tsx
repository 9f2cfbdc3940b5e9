import { createClient } from '@connectrpc/connect';
import { Button } from '@mantine/core';
import { useQuery } from '@connectrpc/connect-query';
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { AdminService } from '../../../gen/tollgate/v1/admin_pb.ts';
import { transport } from '../data/rpc.ts';
import { Moment } from '../parts/amount.tsx';
import { Problem, QueryResult } from '../parts/page.tsx';

const admin = createClient(AdminService, transport);

/** Lists who is signed in to the dashboard; each session can be ended. */
export function Sessions() {
  const client = useQueryClient();
  const sessions = useQuery(AdminService.method.listSessions, {});
  const revoke = useMutation({
    mutationFn: (sessionId: bigint) => admin.revokeSession({ sessionId }),
    onSettled: () => client.invalidateQueries(),
  });
  return (
    <section className="panel" aria-label="Sessions">
      <h2>Sessions of the dashboard</h2>
      {revoke.error !== null && <Problem error={revoke.error} />}
      <QueryResult query={sessions} height={60}>
        {({ sessions: list }) => (
          <div className="scroll" tabIndex={0} role="region" aria-label="Table: Sessions">
            <table className="plain stacked">
              <thead>
                <tr>
                  <th scope="col">Who</th>
                  <th scope="col">Account</th>
                  <th scope="col">Signed in</th>
                  <th scope="col">Ends</th>
                  <th scope="col">
                    <span className="visually-hidden">Changes</span>
                  </th>
                </tr>
              </thead>
              <tbody>
                {list.map(({ sessionId, subject, accountId, createdAtMs, expiresAtMs }) => (
                  <tr key={`${sessionId}`}>
                    <th scope="row">{subject}</th>
                    <td data-name="Account">{accountId === 0n ? 'all' : `${accountId}`}</td>
                    <td data-name="Signed in">
                      <Moment ms={createdAtMs} />
                    </td>
                    <td data-name="Ends">
                      <Moment ms={expiresAtMs} />
                    </td>
                    <td className="right">
                      <Button size="compact-xs" variant="default" onClick={() => revoke.mutate(sessionId)}>
                        End session
                      </Button>
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        )}
      </QueryResult>
    </section>
  );
}
