import { Link } from '@tanstack/react-router';
import type { ActivityRecord } from '../../../gen/tollgate/v1/account_pb.ts';
import { count } from '../data/money.ts';
import { Amount, Duration, Moment } from '../parts/amount.tsx';
import { type Column, DataTable } from '../parts/data-table.tsx';
import { StateWord } from './states.tsx';

const columns: readonly Column<ActivityRecord>[] = [
  { id: 'time', header: 'Time', width: '130px', phone: 'below', cell: record => <Moment ms={record.createdAtMs} /> },
  {
    id: 'request',
    header: 'Request',
    width: 'minmax(220px, 1.4fr)',
    phone: 'lead',
    cell: record => (
      <Link
        to="/activity/$requestId"
        params={{ requestId: record.requestId }}

        className="row-link"
      >
        <code>{record.requestId}</code>
      </Link>
    ),
  },
  { id: 'model', header: 'Model', width: 'minmax(120px, 1fr)', phone: 'note', cell: record => record.model },
  { id: 'key', header: 'Key', width: '64px', isRight: true, cell: record => `${record.apiKeyId}` },
  { id: 'state', header: 'State', width: '100px', phone: 'corner', cell: record => <StateWord state={record.state} /> },
  { id: 'tokens', header: 'Tokens', width: '84px', isRight: true, cell: ({ usage }) => count(sumTokens(usage)) },
  {
    id: 'latency',
    header: 'Latency',
    width: '92px',
    isRight: true,
    cell: record => <Duration ms={record.latencyMs} />,
  },
  {
    id: 'cost',
    header: 'Cost',
    width: '120px',
    isRight: true,
    phone: 'side',
    nano: record => record.costNanoUsd,
    cell: record => <Amount nano={record.costNanoUsd} />,
  },
];

/** Returns the sum of all processed tokens. */
function sumTokens(usage: ActivityRecord['usage']): number {
  if (usage === undefined) return 0;
  const {
    inputTokens = 0,
    cacheReadTokens = 0,
    cacheWrite5mTokens = 0,
    cacheWrite1hTokens = 0,
    outputTokens = 0,
  } = usage;
  return inputTokens + cacheReadTokens + cacheWrite5mTokens + cacheWrite1hTokens + outputTokens;
}

/** Lists settled requests, newest first; each row links to the request's receipt. */
export function RequestRows({ rows }: { readonly rows: readonly ActivityRecord[] }) {
  return (
    <DataTable label="Requests, newest first" columns={columns} rows={rows} rowKey={({ requestId }) => requestId} />
  );
}
