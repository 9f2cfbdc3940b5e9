import { useQuery } from '@connectrpc/connect-query';
import { AdminService } from '../../../gen/tollgate/v1/admin_pb.ts';
import type { AuditRecord } from '../../../gen/tollgate/v1/history_pb.ts';
import { Moment } from '../parts/amount.tsx';
import { type Column, DataTable } from '../parts/data-table.tsx';
import { Empty, QueryResult } from '../parts/page.tsx';

const recordsMax = 1_000;

const columns: readonly Column<AuditRecord>[] = [
  {
    id: 'time',
    header: 'Time',
    width: '140px',
    phone: 'below',
    cell: ({ createdAtMs }) => <Moment ms={createdAtMs} />,
  },
  {
    id: 'actor',
    header: 'Who',
    width: '190px',
    phone: 'corner',
    cell: ({ actorType, actorId }) => {
      const name = `${actorType.replace('_', ' ')}${actorId === undefined ? '' : ` ${actorId}`}`;
      return <span title={name}>{name}</span>;
    },
  },
  {
    id: 'action',
    header: 'Action',
    width: '180px',
    phone: 'lead',
    sortBy: ({ action }) => action,
    cell: ({ action }) => action,
  },
  {
    id: 'resource',
    header: 'Resource',
    width: '150px',
    cell: ({ resourceType, resourceId }) => `${resourceType.replace('_', ' ')} ${resourceId ?? ''}`,
  },
  {
    id: 'after',
    header: 'State after',
    width: 'minmax(200px, 1fr)',
    cell: ({ beforeJson, afterJson }) => (
      <code title={`before: ${beforeJson ?? 'nothing'}\nafter: ${afterJson ?? 'nothing'}`}>
        {afterJson ?? 'nothing'}
      </code>
    ),
  },
];

/** Lists who changed what in an account, newest first. */
export function Audit({ accountId }: { readonly accountId: bigint }) {
  const audit = useQuery(AdminService.method.listAccountAudit, { accountId, query: { limit: recordsMax } });
  return (
    <section aria-label="Audit log">
      <h2>Audit log of account {`${accountId}`}</h2>
      <QueryResult query={audit} height={160}>
        {({ records }) =>
          records.length === 0 ? (
            <Empty title="Nothing has been changed yet">
              Every change to a key, a limit or a balance appears here.
            </Empty>
          ) : (
            <DataTable
              label="Audit log, newest first"
              columns={columns}
              rows={records}
              rowKey={({ auditId }) => `${auditId}`}
            />
          )
        }
      </QueryResult>
    </section>
  );
}
