import { Button, TextInput } from '@mantine/core';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { createLazyRoute, Link } from '@tanstack/react-router';
import { type SubmitEvent, useState } from 'react';
import type { ApiKey, Group, Limit } from '../../../gen/tollgate/v1/account_pb.ts';
import { curlCommand } from '../data/shell-words.ts';
import { nowMs } from '../data/time.ts';
import { may, useAccount, useViewer } from '../data/viewer.ts';
import { Amount, Moment } from '../parts/amount.tsx';
import { type Column, DataTable } from '../parts/data-table.tsx';
import { Dialog } from '../parts/dialog.tsx';
import { Empty, PageTitle, Problem, QueryResult } from '../parts/page.tsx';
import { FirstUse } from './first-use.tsx';
import { LimitBar } from './limit-bar.tsx';
import { ManagementKeys } from './management-keys.tsx';
import { NewKey } from './new-key.tsx';
import { NewLimitDialog } from './new-limit.tsx';
import { payingGroup } from './payer.ts';

/** Shows a key's state in one word. */
export function KeyState({ apiKey }: { readonly apiKey: ApiKey }) {
  if (apiKey.paused) return <span className="pill pill-held">paused</span>;
  if (apiKey.disabled) return <span className="pill pill-failed">disabled</span>;
  if (apiKey.expiresAtMs !== undefined && Number(apiKey.expiresAtMs) <= nowMs()) {
    return <span className="pill pill-held">expired</span>;
  }
  return <span className="settled">works</span>;
}

function keyColumns(groups: readonly Group[]): readonly Column<ApiKey>[] {
  const names = new Map(groups.map(({ groupId, name }) => [groupId, name]));
  return [
    {
      id: 'name',
      header: 'Name',
      width: 'minmax(160px, 1fr)',
      phone: 'lead',
      sortBy: key => key.label,
      cell: key => (
        <Link to="/keys/$keyId" params={{ keyId: `${key.apiKeyId}` }} className="row-link">
          {key.label === '' ? `Key ${key.apiKeyId}` : key.label}
        </Link>
      ),
    },
    { id: 'key', header: 'Key', width: '176px', phone: 'below', cell: ({ key }) => <code>{key}</code> },
    {
      id: 'group',
      header: 'Group',
      width: '120px',
      cell: ({ groupId }) => (groupId === undefined ? '–' : (names.get(groupId) ?? `${groupId}`)),
    },
    { id: 'state', header: 'State', width: '88px', phone: 'corner', cell: key => <KeyState apiKey={key} /> },
    {
      id: 'used',
      header: 'Last used',
      width: '130px',
      cell: ({ lastUsedAtMs }) => (lastUsedAtMs === undefined ? 'never' : <Moment ms={lastUsedAtMs} />),
    },
    {
      id: 'balance',
      nano: key => key.balanceNanoUsd,
      header: 'Paid from',
      width: '128px',
      isRight: true,
      cell: key =>
        key.balanceNanoUsd === undefined ? (
          (payingGroup(key, groups)?.name ?? 'account')
        ) : (
          <Amount nano={key.balanceNanoUsd} />
        ),
    },
    {
      id: 'today',
      header: 'Today (UTC)',
      width: '116px',
      isRight: true,
      phone: 'side',
      sortBy: key => key.usageTodayNanoUsd,
      nano: key => key.usageTodayNanoUsd,
      cell: key => <Amount nano={key.usageTodayNanoUsd} />,
    },
  ];
}

function KeysPage() {
  const viewer = useViewer();
  const source = useAccount();
  const [isMaking, setMaking] = useState(false);
  const [made, setMade] = useState<ApiKey>();
  const keys = useQuery({ queryKey: ['keys', source.name], queryFn: ({ signal }) => source.listKeys(signal) });
  const groups = useQuery({
    queryKey: ['groups', source.name],
    queryFn: ({ signal }) => source.listGroups(signal),
    enabled: may(viewer, 'groups:read'),
  });
  const ways = {
    curl: curlCommand(viewer, '/v1/account/keys'),
    ...(viewer.role === 'operator' && { cli: `tollgate keys list --account ${viewer.accountId}` }),
  };
  return (
    <>
      <PageTitle name="Keys" copyAs={ways}>
        {may(viewer, 'keys:create') && (
          <Button size="xs" onClick={() => setMaking(true)}>
            New key
          </Button>
        )}
      </PageTitle>
      {isMaking && (
        <NewKey
          groups={groups.data ?? []}
          onClose={() => setMaking(false)}
          onMade={key => {
            setMade(key);
            setMaking(false);
          }}
        />
      )}
      {made !== undefined && <FirstUse apiKey={made} onDone={() => setMade(undefined)} />}
      <QueryResult query={keys} height={200}>
        {list =>
          list.length === 0 ? (
            <Empty title="No key yet">Make one: it is shown once, with clients filled in.</Empty>
          ) : (
            <DataTable
              label="Keys"
              columns={keyColumns(groups.data ?? [])}
              rows={list}
              rowKey={({ apiKeyId }) => `${apiKeyId}`}
            />
          )
        }
      </QueryResult>
      {may(viewer, 'limits:read') && <AccountLimits />}
      {groups.data !== undefined && <Groups groups={groups.data} />}
      {viewer.role === 'operator' && <ManagementKeys accountId={viewer.accountId} />}
    </>
  );
}

function AccountLimits() {
  const viewer = useViewer();
  const source = useAccount();
  const [isMaking, setMaking] = useState(false);
  const limits = useQuery({
    queryKey: ['limits', source.name],
    queryFn: ({ signal }) => source.listLimits(signal),
  });
  return (
    <section className="panel" aria-label="Limits of the account and its groups">
      <div className="title">
        <h2>Limits of the account and its groups</h2>
        {may(viewer, 'limits:write') && (
          <Button size="xs" variant="default" onClick={() => setMaking(true)}>
            New limit
          </Button>
        )}
      </div>
      {isMaking && <NewLimitDialog scope="account" scopeId={viewer.accountId} onClose={() => setMaking(false)} />}
      <QueryResult query={limits} height={60}>
        {list => <LimitList limits={list.filter(({ scope }) => scope !== 'key')} />}
      </QueryResult>
    </section>
  );
}

/** Shows limits as bars, each with a button that removes it if the viewer may. */
export function LimitList({ limits }: { readonly limits: readonly Limit[] }) {
  const viewer = useViewer();
  const source = useAccount();
  const client = useQueryClient();
  const { mutate, error } = useMutation({
    mutationFn: (limitId: bigint) => source.deleteLimit(limitId),
    onSettled: () => client.invalidateQueries(),
  });
  if (limits.length === 0) return <p className="quiet">No limit: only balances limit what is spent.</p>;
  return (
    <div className="stack">
      {error !== null && <Problem error={error} />}
      {limits.map(limit => (
        <div key={`${limit.limitId}`}>
          <LimitBar limit={limit}>
            {may(viewer, 'limits:write') && (!limit.locked || viewer.role === 'operator') && (
              <Button size="compact-xs" variant="default" onClick={() => mutate(limit.limitId)}>
                Remove limit
              </Button>
            )}
          </LimitBar>
        </div>
      ))}
    </div>
  );
}

function Groups({ groups }: { readonly groups: readonly Group[] }) {
  const viewer = useViewer();
  const [isMaking, setMaking] = useState(false);
  return (
    <section className="panel" aria-label="Groups">
      <div className="title">
        <h2>Groups</h2>
        {may(viewer, 'groups:write') && (
          <Button size="xs" variant="default" onClick={() => setMaking(true)}>
            New group
          </Button>
        )}
      </div>
      {isMaking && <NewGroup onClose={() => setMaking(false)} />}
      {groups.length === 0 ? (
        <p className="quiet">No group. Keys of a group share limits, tags and possibly a balance.</p>
      ) : (
        <GroupTable groups={groups} />
      )}
    </section>
  );
}

function GroupTable({ groups }: { readonly groups: readonly Group[] }) {
  const viewer = useViewer();
  const source = useAccount();
  const client = useQueryClient();
  const [limited, setLimited] = useState<bigint>();
  const { mutate, error } = useMutation({
    mutationFn: (groupId: bigint) => source.deleteGroup(groupId),
    onSettled: () => client.invalidateQueries(),
  });
  return (
    <div className="scroll" tabIndex={0} role="region" aria-label="Table: Groups">
      {error !== null && <Problem error={error} />}
      {limited !== undefined && (
        <NewLimitDialog scope="group" scopeId={limited} onClose={() => setLimited(undefined)} />
      )}
      <table className="plain stacked">
        <thead>
          <tr>
            <th scope="col">Name</th>
            <th scope="col">In group</th>
            <th scope="col" className="right">
              Balance
            </th>
            <th scope="col">
              <span className="visually-hidden">Changes</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {groups.map(({ groupId, name, parentGroupId, balanceNanoUsd }) => (
            <tr key={`${groupId}`}>
              <th scope="row">
                <Link to="/activity" search={{ group: Number(groupId) }}>
                  {name}
                </Link>
              </th>
              <td data-name="In group">
                {parentGroupId === undefined
                  ? '–'
                  : (groups.find(each => each.groupId === parentGroupId)?.name ?? `${parentGroupId}`)}
              </td>
              <td data-name="Balance" className="right">
                {balanceNanoUsd === undefined ? '–' : <Amount nano={balanceNanoUsd} />}
              </td>
              <td className="right">
                {may(viewer, 'limits:write') && (
                  <Button size="compact-xs" variant="default" onClick={() => setLimited(groupId)}>
                    New limit
                  </Button>
                )}{' '}
                {may(viewer, 'groups:write') && (
                  <Button size="compact-xs" variant="default" onClick={() => mutate(groupId)}>
                    Delete
                  </Button>
                )}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function NewGroup({ onClose }: { readonly onClose: () => void }) {
  const source = useAccount();
  const client = useQueryClient();
  const [name, setName] = useState('');
  const { mutate, error, isPending } = useMutation({
    mutationFn: () => source.createGroup({ name }),
    onSuccess: onClose,
    onSettled: () => client.invalidateQueries(),
  });
  const submit = (event: SubmitEvent): void => {
    event.preventDefault();
    mutate();
  };
  return (
    <Dialog title="New group" onClose={onClose}>
      <form className="form" onSubmit={submit}>
        {error !== null && <Problem error={error} />}
        <TextInput label="Name" maxLength={200} value={name} onChange={event => setName(event.currentTarget.value)} />
        <Button type="submit" loading={isPending} disabled={name === ''}>
          Create group
        </Button>
      </form>
    </Dialog>
  );
}

/** The page of keys, groups and limits. */
export const Route = createLazyRoute('/keys')({ component: KeysPage });
