import { Button, Checkbox, NativeSelect, TextInput } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { type SubmitEvent, useState } from 'react';
import type { ApiKey } from '../../../gen/tollgate/v1/account_pb.ts';
import { parseDollars, plainDollars } from '../data/money.ts';
import type { KeySettings } from '../data/source.ts';
import { fullTime } from '../data/time.ts';
import { may, useAccount, useViewer } from '../data/viewer.ts';
import { Dialog } from '../parts/dialog.tsx';
import { Problem } from '../parts/page.tsx';

interface ChangeKeyProps {
  readonly apiKey: ApiKey;
  readonly error: unknown;
  readonly onClose: () => void;
  readonly onSave: (settings: KeySettings) => void;
}

/** Changes the settings of a key. */
export function ChangeKey({ apiKey, error, onClose, onSave }: ChangeKeyProps) {
  const source = useAccount();
  const viewer = useViewer();
  const groups = useQuery({
    queryKey: ['groups', source.name],
    queryFn: ({ signal }) => source.listGroups(signal),
    enabled: may(viewer, 'groups:read'),
  });
  const [label, setLabel] = useState(apiKey.label);
  const [balance, setBalance] = useState(
    apiKey.balanceNanoUsd === undefined ? '' : plainDollars(apiKey.balanceNanoUsd),
  );
  const [expires, setExpires] = useState('');
  const [isEndless, setEndless] = useState(false);
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
      ...(isEndless ? { neverExpires: true } : expires !== '' && { expiresAtMs: BigInt(new Date(expires).getTime()) }),
    });
  };
  const choices = (groups.data ?? []).map(({ groupId, name }) => ({ value: `${groupId}`, label: name }));
  return (
    <Dialog title={`Change key ${apiKey.apiKeyId}`} onClose={onClose}>
      <form className="form" onSubmit={submit}>
        {error !== null && <Problem error={error} />}
        <TextInput label="Name" maxLength={200} value={label} onChange={event => setLabel(event.currentTarget.value)} />
        <TextInput
          label="Own balance, in dollars"
          description="Empty: the account pays, and the key’s balance moves back to it."
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
        <Expiry
          expiresAtMs={apiKey.expiresAtMs}
          value={expires}
          onChange={setExpires}
          isEndless={isEndless}
          onEndless={setEndless}
        />
        <Button type="submit">Save</Button>
      </form>
    </Dialog>
  );
}

function KeepBodies({ value, onChange }: { readonly value: string; readonly onChange: (value: string) => void }) {
  return (
    <NativeSelect
      label="Keep bodies"
      description="Prompts and answers of its requests, for the translation on their pages. Stored encrypted, for a limited time."
      value={value}
      data={[
        { value: '', label: 'As configured' },
        { value: 'off', label: 'For no request' },
        { value: 'errors', label: 'For failed requests' },
        { value: 'all', label: 'For all requests' },
      ]}
      onChange={event => onChange(event.currentTarget.value)}
    />
  );
}

/** Gives a key a new secret. */
export function RotateKey({
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
        <p>The key gets a new secret, shown once. Its id, balance, limits and history stay.</p>
        <NativeSelect
          label="The old secret stays valid for"
          value={overlap}
          data={[
            { value: '0', label: 'no time: it stops working at once' },
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

interface ExpiryProps {
  readonly expiresAtMs: bigint | undefined;
  readonly value: string;
  readonly onChange: (value: string) => void;
  readonly isEndless: boolean;
  readonly onEndless: (isEndless: boolean) => void;
}

function Expiry({ expiresAtMs, value, onChange, isEndless, onEndless }: ExpiryProps) {
  const now = expiresAtMs === undefined ? 'It never expires now.' : `Now: ${fullTime(expiresAtMs)}.`;
  return (
    <>
      <TextInput
        label="Expires"
        description={`${now} Leave empty to keep that.`}
        type="datetime-local"
        disabled={isEndless}
        value={value}
        onChange={event => onChange(event.currentTarget.value)}
      />
      {expiresAtMs !== undefined && (
        <Checkbox
          label="It never expires"
          checked={isEndless}
          onChange={event => onEndless(event.currentTarget.checked)}
        />
      )}
    </>
  );
}

interface DeleteKeyProps {
  readonly apiKeyId: bigint;
  readonly onClose: () => void;
  readonly onDelete: () => void;
}

/** Asks before a key is deleted. */
export function DeleteKey({ apiKeyId, onClose, onDelete }: DeleteKeyProps) {
  return (
    <Dialog title={`Delete key ${apiKeyId}?`} onClose={onClose}>
      <p>
        The key stops working at once, and this can’t be undone. Its balance moves back to the account; its requests
        stay in the ledger.
      </p>
      <Button color="red" onClick={onDelete}>
        Delete key
      </Button>
    </Dialog>
  );
}
