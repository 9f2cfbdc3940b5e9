import { createClient } from '@connectrpc/connect';
import { Button, Checkbox } from '@mantine/core';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { type SubmitEvent, useState } from 'react';
import { AdminService, KeyState, type ManagementKey } from '../../../gen/tollgate/v1/admin_pb.ts';
import { transport } from '../data/rpc.ts';
import { Moment } from '../parts/amount.tsx';
import { Snippet } from '../parts/copy.tsx';
import { Dialog } from '../parts/dialog.tsx';
import { Problem, QueryResult } from '../parts/page.tsx';

const admin = createClient(AdminService, transport);
const scopes = [
  'keys:create',
  'keys:read',
  'keys:update',
  'keys:delete',
  'account:read',
  'account:activity',
  'account:balance',
  'account:bodies',
  'limits:read',
  'limits:write',
  'groups:read',
  'groups:write',
  'audit:read',
  'webhooks:read',
  'webhooks:write',
];

/** Shows the management keys of an account, which the operator creates, disables and deletes here. */
export function ManagementKeys({ accountId }: { readonly accountId: bigint }) {
  const [isMaking, setMaking] = useState(false);
  const [made, setMade] = useState<ManagementKey>();
  const keys = useQuery({
    queryKey: ['management keys', accountId],
    queryFn: async ({ signal }) => (await admin.listManagementKeys({ accountId }, { signal })).keys,
  });
  return (
    <section className="panel" aria-label="Management keys">
      <div className="title">
        <h2>Management keys</h2>
        <Button size="xs" variant="default" onClick={() => setMaking(true)}>
          New management key
        </Button>
      </div>
      {isMaking && (
        <NewManagementKey
          accountId={accountId}
          onClose={() => setMaking(false)}
          onMade={key => {
            setMade(key);
            setMaking(false);
          }}
        />
      )}
      {made !== undefined && (
        <>
          <p>Copy the key now. The gateway can’t show it again.</p>
          <Snippet text={made.key} label="management key" />
        </>
      )}
      <QueryResult query={keys} height={60}>
        {list => (list.length === 0 ? <p className="quiet">No management key.</p> : <KeyTable keys={list} />)}
      </QueryResult>
    </section>
  );
}

function KeyTable({ keys }: { readonly keys: readonly ManagementKey[] }) {
  const client = useQueryClient();
  const { mutate, error } = useMutation({
    mutationFn: ({ id, state }: { id: bigint; state: KeyState }) =>
      admin.setManagementKeyState({ managementKeyId: id, state }),
    onSettled: () => client.invalidateQueries({ queryKey: ['management keys'] }),
  });
  return (
    <div className="scroll" tabIndex={0} role="region" aria-label="Table: Management keys">
      {error !== null && <Problem error={error} />}
      <table className="plain stacked">
        <thead>
          <tr>
            <th scope="col">Key</th>
            <th scope="col">Created</th>
            <th scope="col">Scopes</th>
            <th scope="col">
              <span className="visually-hidden">Changes</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {keys.map(({ managementKeyId: id, key, createdAtMs, scopes: held, disabled }) => (
            <tr key={`${id}`}>
              <th scope="row">
                <code>{key}</code> {disabled && <span className="pill pill-failed">disabled</span>}
              </th>
              <td data-name="Created">
                <Moment ms={createdAtMs} />
              </td>
              <td data-name="Scopes" className="small">
                {scopes.every(scope => held.includes(scope)) ? 'all' : held.join(', ')}
              </td>
              <td className="right">
                <Button
                  size="compact-xs"
                  variant="default"
                  onClick={() => mutate({ id, state: disabled ? KeyState.ENABLED : KeyState.DISABLED })}
                >
                  {disabled ? 'Enable' : 'Disable'}
                </Button>{' '}
                <Button size="compact-xs" variant="default" onClick={() => mutate({ id, state: KeyState.REVOKED })}>
                  Delete
                </Button>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

interface NewManagementKeyProps {
  readonly accountId: bigint;
  readonly onClose: () => void;
  readonly onMade: (key: ManagementKey) => void;
}

function NewManagementKey({ accountId, onClose, onMade }: NewManagementKeyProps) {
  const client = useQueryClient();
  const [chosen, setChosen] = useState<readonly string[]>(scopes);
  const { mutate, error, isPending } = useMutation({
    mutationFn: async () => {
      const { key } = await admin.createManagementKey({ accountId, scopes: [...chosen] });
      if (key === undefined) throw new Error('The gateway answered without the key.');
      return key;
    },
    onSuccess: onMade,
    onSettled: () => client.invalidateQueries({ queryKey: ['management keys'] }),
  });
  const submit = (event: SubmitEvent): void => {
    event.preventDefault();
    mutate();
  };
  const turn = (scope: string): void =>
    setChosen(chosen.includes(scope) ? chosen.filter(each => each !== scope) : [...chosen, scope]);
  return (
    <Dialog title="New management key" onClose={onClose}>
      <form className="form" onSubmit={submit}>
        {error !== null && <Problem error={error} />}
        {scopes.map(scope => (
          <Checkbox key={scope} label={scope} checked={chosen.includes(scope)} onChange={() => turn(scope)} />
        ))}
        <Button type="submit" loading={isPending} disabled={chosen.length === 0}>
          Create management key
        </Button>
      </form>
    </Dialog>
  );
}
