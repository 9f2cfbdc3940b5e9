import { Button, NativeSelect, TextInput } from '@mantine/core';
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { type SubmitEvent, useState } from 'react';
import type { ApiKey, Group } from '../../../gen/tollgate/v1/account_pb.ts';
import { parseDollars } from '../data/money.ts';
import { useAccount } from '../data/viewer.ts';
import { Dialog } from '../parts/dialog.tsx';
import { Problem } from '../parts/page.tsx';

interface NewKeyProps {
  readonly groups: readonly Group[];
  readonly onClose: () => void;
  readonly onMade: (key: ApiKey) => void;
}

/** The content of the form, as typed. */
interface Draft {
  readonly label: string;
  readonly balance: string;
  readonly monthly: string;
  readonly expires: string;
  readonly group: string;
}

const amountError = 'Type dollars with at most nine decimals, for example 1 or 0.25.';

/** Returns why an amount can't be read; an empty one is valid. */
function amountFault(text: string): string | undefined {
  return text !== '' && parseDollars(text) === undefined ? amountError : undefined;
}

/** The dialog that creates a key. */
export function NewKey({ groups, onClose, onMade }: NewKeyProps) {
  const source = useAccount();
  const client = useQueryClient();
  const [draft, setDraft] = useState<Draft>({ label: '', balance: '', monthly: '', expires: '', group: '' });
  const change = (values: Partial<Draft>): void => setDraft({ ...draft, ...values });
  const { mutate, error, isPending } = useMutation({
    mutationFn: async () => {
      const balance = parseDollars(draft.balance);
      const key = await source.createKey({
        label: draft.label,
        ...(balance !== undefined && { balanceNanoUsd: balance }),
        ...(draft.expires !== '' && { expiresAtMs: BigInt(new Date(draft.expires).getTime()) }),
        ...(draft.group !== '' && { groupId: BigInt(draft.group) }),
      });
      if (key === undefined) throw new Error('The gateway answered without the key.');
      const monthly = parseDollars(draft.monthly);
      if (monthly !== undefined) {
        const settings = { maxNanoUsd: monthly };
        await source.createLimit({ scope: 'key', scopeId: key.apiKeyId, unit: 'usd', window: 'month', settings });
      }
      return key;
    },
    onSuccess: onMade,
    onSettled: () => client.invalidateQueries(),
  });
  const isReadable = amountFault(draft.balance) === undefined && amountFault(draft.monthly) === undefined;
  const submit = (event: SubmitEvent): void => {
    event.preventDefault();
    if (isReadable) mutate();
  };
  return (
    <Dialog title="New key" onClose={onClose}>
      <form className="form" onSubmit={submit}>
        {error !== null && <Problem error={error} />}
        <KeyFields draft={draft} groups={groups} onChange={change} />
        <div className="actions">
          <Button type="submit" loading={isPending}>
            Create key
          </Button>
          <Button variant="default" onClick={onClose}>
            Cancel
          </Button>
        </div>
      </form>
    </Dialog>
  );
}

interface KeyFieldsProps {
  readonly draft: Draft;
  readonly groups: readonly Group[];
  readonly onChange: (values: Partial<Draft>) => void;
}

function KeyFields({ draft, groups, onChange: change }: KeyFieldsProps) {
  return (
    <>
      <TextInput
        label="Name"
        description="For people; may be empty."
        maxLength={200}
        value={draft.label}
        onChange={event => change({ label: event.currentTarget.value })}
      />
      <TextInput
        label="Own balance, in dollars"
        description="Moved out of the account: the key can’t spend more. Empty: the account pays."
        inputMode="decimal"
        value={draft.balance}
        error={amountFault(draft.balance)}
        onChange={event => change({ balance: event.currentTarget.value })}
      />
      <TextInput
        label="Limit per month, in dollars"
        description="UTC months. Empty: no limit. More kinds of limits are on the key’s page."
        inputMode="decimal"
        value={draft.monthly}
        error={amountFault(draft.monthly)}
        onChange={event => change({ monthly: event.currentTarget.value })}
      />
      <TextInput
        label="Expires"
        description="Your time zone. Empty: never."
        type="datetime-local"
        value={draft.expires}
        onChange={event => change({ expires: event.currentTarget.value })}
      />
      {groups.length > 0 && (
        <NativeSelect
          label="Group"
          value={draft.group}
          data={[
            { value: '', label: 'None' },
            ...groups.map(({ groupId, name }) => ({ value: `${groupId}`, label: name })),
          ]}
          onChange={event => change({ group: event.currentTarget.value })}
        />
      )}
    </>
  );
}
