import { Button } from '@mantine/core';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { createLazyRoute, getRouteApi, Link, useNavigate } from '@tanstack/react-router';
import { useState } from 'react';
import type { ApiKey } from '../../../gen/tollgate/v1/account_pb.ts';
import { curlCommand } from '../data/shell-words.ts';
import { fullTime } from '../data/time.ts';
import { may, useAccount, useViewer } from '../data/viewer.ts';
import { Amount, Moment } from '../parts/amount.tsx';
import { Empty, PageTitle, Problem, QueryResult } from '../parts/page.tsx';
import { FirstUse } from './first-use.tsx';
import { ChangeKey, DeleteKey, RotateKey } from './key-dialogs.tsx';
import { KeyState, LimitList } from './keys-page.tsx';
import { NewLimitDialog } from './new-limit.tsx';
import { payingGroup } from './payer.ts';

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
      <PageTitle name={`Key ${keyId}`} copyAs={ways}>
        <Link to="/keys" className="small">
          All keys
        </Link>
      </PageTitle>
      {rotated !== undefined && <FirstUse apiKey={rotated} onDone={() => setRotated(undefined)} />}
      <QueryResult query={keys} height={240}>
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
      </QueryResult>
    </>
  );
}

function KeyFacts({ apiKey }: { readonly apiKey: ApiKey }) {
  const { label, key, createdAtMs, lastUsedAtMs, expiresAtMs, balanceNanoUsd, usageTodayNanoUsd, allowedModels } =
    apiKey;
  const viewer = useViewer();
  const source = useAccount();
  const groups = useQuery({
    queryKey: ['groups', source.name],
    queryFn: ({ signal }) => source.listGroups(signal),
    enabled: apiKey.groupId !== undefined && may(viewer, 'groups:read'),
  });
  const group = groups.data?.find(({ groupId }) => groupId === apiKey.groupId);
  const payer = payingGroup(apiKey, groups.data ?? []);
  return (
    <section className="panel" aria-label="Facts">
      <dl className="facts">
        <dt>Name</dt>
        <dd>{label === '' ? '–' : label}</dd>
        <dt>Key</dt>
        <dd>
          <code>{key}</code> <KeyState apiKey={apiKey} />
        </dd>
        <dt>Created</dt>
        <dd>
          <Moment ms={createdAtMs} />
        </dd>
        <dt>Last used</dt>
        <dd>{lastUsedAtMs === undefined ? 'never' : <Moment ms={lastUsedAtMs} />}</dd>
        <dt>Expires</dt>
        <dd>{expiresAtMs === undefined ? 'never' : fullTime(expiresAtMs)}</dd>
        <dt>Group</dt>
        <dd>{apiKey.groupId === undefined ? 'none' : (group?.name ?? `${apiKey.groupId}`)}</dd>
        <dt>Pays from</dt>
        <dd>
          {balanceNanoUsd === undefined ? (
            payer === undefined ? (
              'the account’s balance'
            ) : (
              `the balance of group ${payer.name}`
            )
          ) : (
            <>
              its own balance, <Amount nano={balanceNanoUsd} />
            </>
          )}
        </dd>
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
    // The deleted key is removed from the cached list, so that it is not shown until the list is read again.
    client.setQueryData<readonly ApiKey[]>(['keys', source.name], list =>
      list?.filter(each => each.apiKeyId !== apiKeyId),
    );
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
        <DeleteKey apiKeyId={apiKeyId} onClose={() => setOpen(undefined)} onDelete={() => change.mutate(remove)} />
      )}
    </div>
  );
}

function PauseButton({ paused, onClick }: { readonly paused: boolean; readonly onClick: () => void }) {
  return (
    <Button size="xs" variant="default" onClick={onClick}>
      {paused ? 'Resume' : 'Pause'}
    </Button>
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
        <h2>Limits that apply to the key</h2>
        {may(viewer, 'limits:write') && (
          <Button size="xs" variant="default" onClick={() => setMaking(true)}>
            New limit
          </Button>
        )}
      </div>
      {isMaking && <NewLimitDialog scope="key" scopeId={apiKeyId} onClose={() => setMaking(false)} />}
      <QueryResult query={limits} height={60}>
        {list => (
          <LimitList
            limits={list.filter(
              ({ scope, scopeId }) =>
                scope === 'account' || (scope === 'key' ? scopeId === apiKeyId : scopeId === groupId),
            )}
          />
        )}
      </QueryResult>
    </section>
  );
}

/** The page of one key. */
export const Route = createLazyRoute('/keys/$keyId')({ component: KeyPage });
