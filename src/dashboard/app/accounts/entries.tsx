import { useQuery } from '@connectrpc/connect-query';
import { NativeSelect } from '@mantine/core';
import { Link } from '@tanstack/react-router';
import { useState } from 'react';
import { AdminService } from '../../../gen/tollgate/v1/admin_pb.ts';
import type { Entry } from '../../../gen/tollgate/v1/history_pb.ts';
import { nowMs } from '../data/time.ts';
import { Amount, Moment } from '../parts/amount.tsx';
import { type Column, DataTable } from '../parts/data-table.tsx';
import { Empty, QueryResult } from '../parts/page.tsx';

const entriesMax = 1_000;
const dayMs = 86_400_000;

/** Returns whose balance an entry changed: the account's, a group's or a key's. */
function ownerName({ apiKeyId, groupId }: Entry): string {
  if (apiKeyId !== undefined) return `key ${apiKeyId}`;
  return groupId === undefined ? 'account' : `group ${groupId}`;
}

const columns: readonly Column<Entry>[] = [
  {
    id: 'time',
    header: 'Time',
    width: '140px',
    phone: 'below',
    cell: ({ createdAtMs }) => <Moment ms={createdAtMs} />,
  },
  {
    id: 'entry',
    header: 'Entry',
    width: '80px',
    isRight: true,
    cell: ({ entryId }) => (entryId === 0n ? '–' : `${entryId}`),
  },
  { id: 'kind', header: 'Kind', width: '110px', phone: 'lead', cell: ({ kind }) => kind.replace('_', ' ') },
  { id: 'ownerName', header: 'Pocket', width: '110px', phone: 'corner', cell: ownerName },
  {
    id: 'note',
    header: 'Note',
    width: 'minmax(180px, 1fr)',
    cell: ({ note, requestId }) =>
      requestId === undefined ? (
        note
      ) : (
        <Link to="/activity/$requestId" params={{ requestId }}>
          <code>{requestId}</code>
        </Link>
      ),
  },
  {
    id: 'amount',
    header: 'Amount',
    width: '140px',
    isRight: true,
    phone: 'side',
    nano: ({ amountNanoUsd }) => amountNanoUsd,
    cell: ({ amountNanoUsd }) => <Amount nano={amountNanoUsd} />,
  },
  {
    id: 'after',
    header: 'Balance after',
    width: '150px',
    isRight: true,
    nano: ({ balanceAfterNanoUsd }) => balanceAfterNanoUsd,
    cell: ({ balanceAfterNanoUsd }) => <Amount nano={balanceAfterNanoUsd} />,
  },
];

/** Lists the changes of an account's balances, newest first, with the balance after each. */
export function Entries({ accountId }: { readonly accountId: bigint }) {
  const [charges, setCharges] = useState('no');
  const [openedMs] = useState(nowMs);
  const entries = useQuery(AdminService.method.listAccountEntries, {
    accountId,
    // Charges are many, so that with them only entries of the last day are read.
    query: { limit: entriesMax, ...(charges === 'yes' && { startMs: BigInt(Math.floor(openedMs - dayMs)) }) },
    charges: charges === 'yes',
  });
  return (
    <section aria-label="Entries">
      <div className="title">
        <h2>Entries of account {`${accountId}`}</h2>
        <NativeSelect
          size="xs"
          aria-label="Which entries"
          value={charges}
          data={[
            { value: 'no', label: 'Without charges of requests' },
            { value: 'yes', label: 'With charges of the last day' },
          ]}
          onChange={event => setCharges(event.currentTarget.value)}
        />
      </div>
      <QueryResult query={entries} height={160}>
        {({ entries: list }) =>
          list.length === 0 ? (
            <Empty title="No entry yet">Entries appear here when you add credit.</Empty>
          ) : (
            <DataTable
              label="Entries, newest first"
              columns={columns}
              rows={list}
              rowKey={({ entryId, requestId }) => `${entryId} ${requestId ?? ''}`}
            />
          )
        }
      </QueryResult>
    </section>
  );
}
