import { Button, NativeSelect, TextInput } from '@mantine/core';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { createLazyRoute, getRouteApi, Link, useNavigate } from '@tanstack/react-router';
import { type SubmitEvent, useState } from 'react';
import type { ApiKey } from '../../../gen/tollgate/v1/account_pb.ts';
import { parseDollars, plainDollars } from '../data/money.ts';
import { curlCommand } from '../data/shell-words.ts';
import type { KeySettings } from '../data/source.ts';
import { fullTime } from '../data/time.ts';
import { may, useAccount, useViewer } from '../data/viewer.ts';
import { Amount, Moment } from '../parts/amount.tsx';
import { Dialog } from '../parts/dialog.tsx';
import { Empty, PageTitle, Problem, Shown } from '../parts/page.tsx';
import { Activation } from './activation.tsx';
import { KeyState, LimitList } from './keys-page.tsx';
import { NewLimitDialog } from './new-limit.tsx';

const route = getRouteApi('/keys/$keyId');

function KeyPage() {
  const { keyId } = route.useParams();
  const viewer = useViewer();
  const source = useAccount();
  const keys = useQuery({ queryKey: ['keys', source.name], queryFn: ({ signal }) => source.listKeys(signal) });
  const [rotated, setRotated] = useState<ApiKey>();
  const ways = {
    curl: curlCommand(viewer, `/v1/account/keys/${keyId}`),
    ...(viewer.role === 'operator' && { cli: `tollgate keys show ${keyId}` }),
  };
  return (
    <>
      <PageTitle name={`Key ${keyId}`} as={ways}>
        <Link to="/keys" className="small">
          All keys
        </Link>
      </PageTitle>
      {rotated !== undefined && <Activation apiKey={rotated} onDone={() => setRotated(undefined)} />}
      <Shown of={keys} height={240}>
        {list => {
          const key = list.find(({ apiKeyId }) => `${apiKeyId}` === keyId);
          if (key === undefined)
            return <Empty title="There is no such key">It was deleted, or it belongs to another account.</Empty>;
          return (
            <>
              <KeyFacts apiKey={key} />
              <KeyActions apiKey={key} onRotated={setRotated} />
              {may(viewer, 'limits:read') && <KeyLimits apiKey={key} />}
            </>
          );
        }}
      </Shown>
    </>
  );
}

function KeyFacts({ apiKey }: { readonly apiKey: ApiKey }) {
  const { label, key, createdAtMs, lastUsedAtMs, expiresAtMs, balanceNanoUsd, usageTodayNanoUsd, allowedModels } =
    apiKey;
  return (
    <section className="panel" aria-label="Facts">
      <dl className="facts">
        <dt>Name</dt>
        <dd>{label === '' ? '–' : label}</dd>
        <dt>Key</dt>
        <dd>
          <code>{key}</code> <KeyState apiKey={apiKey} />
        </dd>
        <dt>Made</dt>
        <dd>
          <Moment ms={createdAtMs} />
        </dd>
        <dt>Last used</dt>
        <dd>{lastUsedAtMs === undefined ? 'never' : <Moment ms={lastUsedAtMs} />}</dd>
        <dt>Expires</dt>
        <dd>{expiresAtMs === undefined ? 'never' : fullTime(expiresAtMs)}</dd>
        <dt>Pays from</dt>
        <dd>{balanceNanoUsd === undefined ? 'the account’s balance' : <Amount nano={balanceNanoUsd} />}</dd>
        <dt>Spent today (UTC)</dt>
        <dd>
          <Amount nano={usageTodayNanoUsd} />{' '}
          <Link to="/activity" search={{ key: Number(apiKey.apiKeyId) }}>
            its requests
          </Link>
        </dd>
        <dt>Models</dt>
        <dd>{allowedModels === undefined ? 'all' : allowedModels.models.join(', ') || 'none'}</dd>
      </dl>
    </section>
  );
}

interface ActionsProps {
  readonly apiKey: ApiKey;
  readonly onRotated: (key: ApiKey) => void;
}

function KeyActions({ apiKey, onRotated }: ActionsProps) {
  const viewer = useViewer();
  const source = useAccount();
  const client = useQueryClient();
  const navigate = useNavigate();
  const [open, setOpen] = useState<'change' | 'rotate' | 'delete'>();
  const { apiKeyId, disabled, paused } = apiKey;
  const change = useMutation({
    mutationFn: (call: () => Promise<unknown>) => call(),
    onSuccess: () => setOpen(undefined),
    onSettled: () => client.invalidateQueries(),
  });
  const rotate = async (overlapSeconds: number): Promise<void> => {
    const key = await source.rotateKey(apiKeyId, overlapSeconds);
    if (key !== undefined) onRotated(key);
  };
  const remove = async (): Promise<void> => {
    await source.deleteKey(apiKeyId);
    await navigate({ to: '/keys' });
  };
  const { setDisabled } = source;
  return (
    <div className="actions" style={{ marginBottom: 12 }}>
      {change.error !== null && <Problem error={change.error} />}
      {may(viewer, 'keys:update') && (
        <>
          <Button size="xs" variant="default" onClick={() => setOpen('change')}>
            Change
          </Button>
          <Button size="xs" variant="default" onClick={() => setOpen('rotate')}>
            Rotate
          </Button>
          <PauseButton
            paused={paused}
            onClick={() => change.mutate(() => source.updateKey(apiKeyId, { paused: !paused }))}
          />
          {setDisabled !== undefined && (
            <Button size="xs" variant="default" onClick={() => change.mutate(() => setDisabled(apiKeyId, !disabled))}>
              {disabled ? 'Enable' : 'Disable'}
            </Button>
          )}
        </>
      )}
      {may(viewer, 'keys:delete') && (
        <Button size="xs" variant="default" onClick={() => setOpen('delete')}>
          Delete
        </Button>
      )}
      {open === 'change' && (
        <ChangeKey
          apiKey={apiKey}
          error={change.error}
          onClose={() => setOpen(undefined)}
          onSave={settings => change.mutate(() => source.updateKey(apiKeyId, settings))}
        />
      )}
      {open === 'rotate' && (
        <RotateKey onClose={() => setOpen(undefined)} onRotate={seconds => change.mutate(() => rotate(seconds))} />
      )}
      {open === 'delete' && (
        <Dialog title={`Delete key ${apiKeyId}?`} onClose={() => setOpen(undefined)}>
          <p>It stops working at once and for good. Its balance moves back; its requests stay in the ledger.</p>
          <Button color="red" onClick={() => change.mutate(remove)}>
            Delete key
          </Button>
        </Dialog>
      )}
    </div>
  );
}

interface ChangeKeyProps {
  readonly apiKey: ApiKey;
  readonly error: unknown;
  readonly onClose: () => void;
  readonly onSave: (settings: KeySettings) => void;
}

function ChangeKey({ apiKey, error, onClose, onSave }: ChangeKeyProps) {
  const source = useAccount();
  const groups = useQuery({ queryKey: ['groups', source.name], queryFn: ({ signal }) => source.listGroups(signal) });
  const [label, setLabel] = useState(apiKey.label);
  const [balance, setBalance] = useState(
    apiKey.balanceNanoUsd === undefined ? '' : plainDollars(apiKey.balanceNanoUsd),
  );
  const [expires, setExpires] = useState('');
  const [group, setGroup] = useState(`${apiKey.groupId ?? ''}`);
  const [keepBodies, setKeepBodies] = useState(apiKey.keepBodies);
  const amount = parseDollars(balance);
  const fault = balance !== '' && amount === undefined ? 'Type dollars with at most nine decimals.' : undefined;
  const submit = (event: SubmitEvent): void => {
    event.preventDefault();
    if (fault !== undefined) return;
    onSave({
      label,
      keepBodies,
      ...(amount === undefined ? { noBalance: true } : { balanceNanoUsd: amount }),
      ...(group === '' ? { noGroup: true } : { groupId: BigInt(group) }),
      ...(expires !== '' && { expiresAtMs: BigInt(new Date(expires).getTime()) }),
    });
  };
  const choices = (groups.data ?? []).map(({ groupId, name }) => ({ value: `${groupId}`, label: name }));
  return (
    <Dialog title={`Change key ${apiKey.apiKeyId}`} onClose={onClose}>
      <form className="form" onSubmit={submit}>
        {error !== null && <Problem error={error} />}
        <TextInput label="Name" maxLength={200} value={label} onChange={event => setLabel(event.currentTarget.value)} />
        <TextInput
          label="Balance of its own, in dollars"
          description="Empty: the account pays, and what it has moves back."
          inputMode="decimal"
          value={balance}
          error={fault}
          onChange={event => setBalance(event.currentTarget.value)}
        />
        <NativeSelect
          label="Group"
          value={group}
          data={[{ value: '', label: 'None' }, ...choices]}
          onChange={event => setGroup(event.currentTarget.value)}
        />
        <KeepBodies value={keepBodies} onChange={setKeepBodies} />
        <TextInput
          label="Expires"
          description={
            apiKey.expiresAtMs === undefined
              ? 'It never does now. Empty: as it is.'
              : `Now: ${fullTime(apiKey.expiresAtMs)}. Empty: as it is.`
          }
          type="datetime-local"
          value={expires}
          onChange={event => setExpires(event.currentTarget.value)}
        />
        <Button type="submit">Save</Button>
      </form>
    </Dialog>
  );
}

function PauseButton({ paused, onClick }: { readonly paused: boolean; readonly onClick: () => void }) {
  return (
    <Button size="xs" variant="default" onClick={onClick}>
      {paused ? 'Go on' : 'Pause'}
    </Button>
  );
}

function KeepBodies({ value, onChange }: { readonly value: string; readonly onChange: (value: string) => void }) {
  return (
    <NativeSelect
      label="Keep bodies"
      description="What is said in its requests, for the translation on their pages. Encrypted, and only for a time."
      value={value}
      data={[
        { value: '', label: 'As the configuration says' },
        { value: 'off', label: 'Of no request' },
        { value: 'errors', label: 'Of failed requests' },
        { value: 'all', label: 'Of all requests' },
      ]}
      onChange={event => onChange(event.currentTarget.value)}
    />
  );
}

function RotateKey({
  onClose,
  onRotate,
}: {
  readonly onClose: () => void;
  readonly onRotate: (overlapSeconds: number) => void;
}) {
  const [overlap, setOverlap] = useState('86400');
  return (
    <Dialog title="Rotate the key" onClose={onClose}>
      <div className="form">
        <p>The key gets another secret, shown once. Its id, balance, limits and history stay.</p>
        <NativeSelect
          label="The old secret works on for"
          value={overlap}
          data={[
            { value: '0', label: 'no time: it ends now' },
            { value: '3600', label: '1 hour' },
            { value: '86400', label: '1 day' },
            { value: '604800', label: '7 days' },
          ]}
          onChange={event => setOverlap(event.currentTarget.value)}
        />
        <Button onClick={() => onRotate(Number(overlap))}>Rotate key</Button>
      </div>
    </Dialog>
  );
}

function KeyLimits({ apiKey }: { readonly apiKey: ApiKey }) {
  const viewer = useViewer();
  const source = useAccount();
  const [isMaking, setMaking] = useState(false);
  const limits = useQuery({
    queryKey: ['limits', source.name],
    queryFn: ({ signal }) => source.listLimits(signal),
  });
  const { apiKeyId, groupId } = apiKey;
  return (
    <section className="panel" aria-label="Limits">
      <div className="title">
        <h2>Limits that bind it</h2>
        {may(viewer, 'limits:write') && (
          <Button size="xs" variant="default" onClick={() => setMaking(true)}>
            New limit
          </Button>
        )}
      </div>
      {isMaking && <NewLimitDialog scope="key" scopeId={apiKeyId} onClose={() => setMaking(false)} />}
      <Shown of={limits} height={60}>
        {list => (
          <LimitList
            limits={list.filter(
              ({ scope, scopeId }) =>
                scope === 'account' || (scope === 'key' ? scopeId === apiKeyId : scopeId === groupId),
            )}
          />
        )}
      </Shown>
    </section>
  );
}

/** The page of one key. */
export const Route = createLazyRoute('/keys/$keyId')({ component: KeyPage });
