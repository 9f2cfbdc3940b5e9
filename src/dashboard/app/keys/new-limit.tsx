import { Button, NativeSelect, TextInput } from '@mantine/core';
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { type SubmitEvent, useState } from 'react';
import { parseDollars } from '../data/money.ts';
import { useAccount } from '../data/viewer.ts';
import { Dialog } from '../parts/dialog.tsx';
import { Problem } from '../parts/page.tsx';

interface NewLimitProps {
  readonly scope: 'account' | 'group' | 'key';
  readonly scopeId: bigint;
  readonly onClose: () => void;
}

const units = [
  { value: 'usd', label: 'Dollars' },
  { value: 'requests', label: 'Requests' },
  { value: 'tokens', label: 'Tokens' },
  { value: 'concurrent', label: 'Requests at once' },
];
const windows = ['minute', 'hour', 'day', 'week', 'month', 'total'];

/** The dialog that creates a limit of an account, a group or a key. */
export function NewLimitDialog({ scope, scopeId, onClose }: NewLimitProps) {
  const source = useAccount();
  const client = useQueryClient();
  const [unit, setUnit] = useState('usd');
  const [window, setWindow] = useState('month');
  const [max, setMax] = useState('');
  const [action, setAction] = useState('refuse');
  const amount = unit === 'usd' ? parseDollars(max) : /^\d{1,15}$/.test(max) ? BigInt(max) : undefined;
  const { mutate, error, isPending } = useMutation({
    mutationFn: () =>
      source.createLimit({
        scope,
        scopeId,
        unit,
        window: unit === 'concurrent' ? '' : window,
        settings: { action, ...(unit === 'usd' ? { maxNanoUsd: amount } : { max: amount }) },
      }),
    onSuccess: onClose,
    onSettled: () => client.invalidateQueries(),
  });
  const submit = (event: SubmitEvent): void => {
    event.preventDefault();
    if (amount !== undefined) mutate();
  };
  return (
    <Dialog title={`New limit of ${scope === 'account' ? 'the account' : `${scope} ${scopeId}`}`} onClose={onClose}>
      <form className="form" onSubmit={submit}>
        {error !== null && <Problem error={error} />}
        <NativeSelect label="Limits" value={unit} data={units} onChange={event => setUnit(event.currentTarget.value)} />
        {unit !== 'concurrent' && (
          <NativeSelect
            label="Period"
            value={window}
            data={windows}
            onChange={event => setWindow(event.currentTarget.value)}
          />
        )}
        <TextInput
          label={unit === 'usd' ? 'At most, in dollars' : 'At most'}
          inputMode="decimal"
          value={max}
          error={max !== '' && amount === undefined ? 'Type a number.' : undefined}
          onChange={event => setMax(event.currentTarget.value)}
        />
        <NativeSelect
          label="When it is reached"
          value={action}
          data={[
            { value: 'refuse', label: 'Refuse requests' },
            { value: 'alert', label: 'Alert only' },
          ]}
          onChange={event => setAction(event.currentTarget.value)}
        />
        <Button type="submit" loading={isPending} disabled={amount === undefined}>
          Create limit
        </Button>
      </form>
    </Dialog>
  );
}
