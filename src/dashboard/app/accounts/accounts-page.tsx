import { createClient } from '@connectrpc/connect';
import { Button, TextInput } from '@mantine/core';
import { useQuery } from '@connectrpc/connect-query';
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { createLazyRoute, Link } from '@tanstack/react-router';
import { type SubmitEvent, useState } from 'react';
import { type Account, AccountSuspension, AdminService } from '../../../gen/tollgate/v1/admin_pb.ts';
import { parseDollars } from '../data/money.ts';
import { transport } from '../data/rpc.ts';
import { operatorCurl } from '../data/shell-words.ts';
import { useViewer, type Viewer } from '../data/viewer.ts';
import { Amount, Moment } from '../parts/amount.tsx';
import { type Column, DataTable } from '../parts/data-table.tsx';
import type { OtherWays } from '../parts/copy.tsx';
import { Dialog } from '../parts/dialog.tsx';
import { Empty, PageTitle, Problem, QueryResult, Tile } from '../parts/page.tsx';
import { Audit } from './audit.tsx';
import { Entries } from './entries.tsx';
import { LedgerCheck } from './ledger-check.tsx';
import { PlanPanel } from './plan-panel.tsx';
import { Sessions } from './sessions.tsx';
import { VoidedHolds } from './voided-holds.tsx';
import { Webhooks } from './webhooks.tsx';

const admin = createClient(AdminService, transport);

const columns: readonly Column<Account>[] = [
  {
    id: 'name',
    header: 'Name',
    width: 'minmax(180px, 1fr)',
    phone: 'lead',
    sortBy: account => account.name,
    cell: ({ accountId, name }) => (
      <Link to="/accounts" search={{ account: Number(accountId) }} className="row-link">
        {name}
      </Link>
    ),
  },
  {
    id: 'id',
    header: 'Id',
    width: '80px',
    isRight: true,
    sortBy: account => account.accountId,
    cell: ({ accountId }) => `${accountId}`,
  },
  {
    id: 'made',
    header: 'Created',
    width: '140px',
    phone: 'below',
    cell: ({ createdAtMs }) => <Moment ms={createdAtMs} />,
  },
  {
    id: 'state',
    header: 'State',
    width: '120px',
    phone: 'corner',
    cell: ({ suspension }) => <AccountState suspension={suspension} />,
  },
  {
    id: 'held',
    header: 'Held',
    width: '130px',
    isRight: true,
    nano: ({ heldNanoUsd }) => heldNanoUsd,
    cell: ({ heldNanoUsd }) => <Amount nano={heldNanoUsd} />,
  },
  {
    id: 'balance',
    header: 'Balance',
    width: '150px',
    isRight: true,
    phone: 'side',
    sortBy: account => account.balanceNanoUsd,
    nano: ({ balanceNanoUsd }) => balanceNanoUsd,
    cell: ({ balanceNanoUsd }) => <Amount nano={balanceNanoUsd} />,
  },
];

function AccountState({ suspension }: { readonly suspension: number }) {
  if (suspension === AccountSuspension.UNSPECIFIED) return <span className="settled">open</span>;
  return (
    <span className="pill pill-failed">{suspension === AccountSuspension.DAMAGED ? 'damaged' : 'write-offs'}</span>
  );
}

function listWays(viewer: Viewer): readonly OtherWays[] {
  const account = `${viewer.accountId}`;
  const of = { accountId: account };
  return [
    { of: 'accounts', curl: operatorCurl(viewer, 'ListAccounts'), cli: 'tollgate accounts list' },
    {
      of: 'entries',
      curl: operatorCurl(viewer, 'ListAccountEntries', of),
      cli: `tollgate entries list --account ${account}`,
    },
    {
      of: 'audit log',
      curl: operatorCurl(viewer, 'ListAccountAudit', of),
      cli: `tollgate audit list --account ${account}`,
    },
    {
      of: 'webhooks',
      curl: operatorCurl(viewer, 'ListAccountWebhooks', of),
      cli: `tollgate webhooks list --account ${account}`,
    },
    { of: 'ledger', curl: operatorCurl(viewer, 'VerifyLedger'), cli: 'tollgate ledger verify' },
    { of: 'sessions', curl: operatorCurl(viewer, 'ListSessions'), cli: 'tollgate sessions list' },
  ];
}

function AccountsPage() {
  const viewer = useViewer();
  const { accountId } = viewer;
  const [isMaking, setMaking] = useState(false);
  const accounts = useQuery(AdminService.method.listAccounts, {});
  return (
    <>
      <PageTitle name="Accounts and ledger" copyAs={listWays(viewer)}>
        <Button size="xs" onClick={() => setMaking(true)}>
          New account
        </Button>
      </PageTitle>
      {isMaking && <NewAccount onClose={() => setMaking(false)} />}
      <QueryResult query={accounts} height={240}>
        {({ accounts: list }) => {
          const shown = list.find(each => each.accountId === accountId);
          return (
            <>
              {shown === undefined ? (
                <Empty title={`There is no account ${accountId}`}>Choose another below.</Empty>
              ) : (
                <AccountPanel account={shown} />
              )}
              <DataTable label="Accounts" columns={columns} rows={list} rowKey={each => `${each.accountId}`} />
            </>
          );
        }}
      </QueryResult>
      <Entries key={`${accountId}`} accountId={accountId} />
      <Audit accountId={accountId} />
      <Webhooks accountId={accountId} />
      <LedgerCheck />
      <VoidedHolds />
      <Sessions />
    </>
  );
}

function AccountPanel({ account }: { readonly account: Account }) {
  const [isCrediting, setCrediting] = useState(false);
  const client = useQueryClient();
  const { accountId, name, balanceNanoUsd, heldNanoUsd, suspension } = account;
  const resume = useMutation({
    mutationFn: () => admin.resumeAccount({ accountId }),
    onSettled: () => client.invalidateQueries(),
  });
  return (
    <section aria-label={`Account ${name}`}>
      <div className="title">
        <h2>
          {name} <span className="quiet small">account {`${accountId}`}</span>
        </h2>
        <div className="actions">
          {suspension !== AccountSuspension.UNSPECIFIED && (
            <Button size="xs" variant="default" loading={resume.isPending} onClick={() => resume.mutate()}>
              Take requests again
            </Button>
          )}
          <Button size="xs" variant="default" onClick={() => setCrediting(true)}>
            Add credit
          </Button>
        </div>
      </div>
      {resume.error !== null && <Problem error={resume.error} />}
      {isCrediting && <Credit accountId={accountId} onClose={() => setCrediting(false)} />}
      <dl className="tiles">
        <Tile name="Balance" note="without what keys and groups have of their own">
          <Amount nano={balanceNanoUsd} />
        </Tile>
        <Tile name="Held" note="of this balance, by running requests" showsHeldMoney={heldNanoUsd > 0n}>
          <Amount nano={heldNanoUsd} />
        </Tile>
        <Tile name="Available" note="balance less held">
          <Amount nano={balanceNanoUsd - heldNanoUsd} />
        </Tile>
      </dl>
      <PlanPanel key={`${accountId}`} accountId={accountId} />
    </section>
  );
}

function NewAccount({ onClose }: { readonly onClose: () => void }) {
  const client = useQueryClient();
  const [name, setName] = useState('');
  const [balance, setBalance] = useState('0');
  const amount = parseDollars(balance);
  const { mutate, error, isPending } = useMutation({
    mutationFn: () => admin.createAccount({ name, balanceNanoUsd: amount ?? 0n }),
    onSuccess: onClose,
    onSettled: () => client.invalidateQueries(),
  });
  const submit = (event: SubmitEvent): void => {
    event.preventDefault();
    mutate();
  };
  return (
    <Dialog title="New account" onClose={onClose}>
      <form className="form" onSubmit={submit}>
        {error !== null && <Problem error={error} />}
        <TextInput label="Name" maxLength={200} value={name} onChange={event => setName(event.currentTarget.value)} />
        <TextInput
          label="Opening balance, in dollars"
          inputMode="decimal"
          value={balance}
          error={amount === undefined ? 'Type dollars with at most nine decimals.' : undefined}
          onChange={event => setBalance(event.currentTarget.value)}
        />
        <Button type="submit" loading={isPending} disabled={name === '' || amount === undefined}>
          Create account
        </Button>
      </form>
    </Dialog>
  );
}

function Credit({ accountId, onClose }: { readonly accountId: bigint; readonly onClose: () => void }) {
  const client = useQueryClient();
  const [text, setText] = useState('');
  const [note, setNote] = useState('');
  // The same reference for every attempt in this dialog, so that a repeat after a lost reply does not add the credit twice.
  const [reference] = useState(() => crypto.randomUUID());
  const isTaken = text.startsWith('-');
  const size = parseDollars(isTaken ? text.slice(1) : text);
  const amount = size === undefined || size === 0n ? undefined : isTaken ? -size : size;
  const { mutate, error, isPending } = useMutation({
    mutationFn: () => admin.addCredit({ accountId, amountNanoUsd: amount ?? 0n, note, reference }),
    onSuccess: onClose,
    onSettled: () => client.invalidateQueries(),
  });
  const submit = (event: SubmitEvent): void => {
    event.preventDefault();
    mutate();
  };
  return (
    <Dialog title={`Add credit to account ${accountId}`} onClose={onClose}>
      <form className="form" onSubmit={submit}>
        {error !== null && <Problem error={error} />}
        <TextInput
          label="Dollars"
          description="A negative amount takes money out, as far as it is not held."
          inputMode="decimal"
          value={text}
          error={
            text !== '' && amount === undefined ? 'Type dollars other than 0, with at most nine decimals.' : undefined
          }
          onChange={event => setText(event.currentTarget.value)}
        />
        <TextInput
          label="Note"
          description="Why, for people."
          value={note}
          onChange={event => setNote(event.currentTarget.value)}
        />
        <Button type="submit" loading={isPending} disabled={amount === undefined}>
          Add credit
        </Button>
      </form>
    </Dialog>
  );
}

/** The operator's page of accounts and the ledger. */
export const Route = createLazyRoute('/accounts')({ component: AccountsPage });
