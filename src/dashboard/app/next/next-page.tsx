import { NativeSelect } from '@mantine/core';
import { useQuery as useCall } from '@connectrpc/connect-query';
import { useQuery } from '@tanstack/react-query';
import { createLazyRoute, getRouteApi } from '@tanstack/react-router';
import { AccountService, type ApiKey, type Group, type Limit, Payer } from '../../../gen/tollgate/v1/account_pb.ts';
import { CatalogService } from '../../../gen/tollgate/v1/catalog_pb.ts';
import { curlOf } from '../data/shell-words.ts';
import { useAccount, useViewer } from '../data/viewer.ts';
import { LimitBar } from '../keys/limit-bar.tsx';
import { Amount } from '../parts/amount.tsx';
import { Empty, PageTitle, Shown } from '../parts/page.tsx';
import { bindingLimits, groupsAbove, payersInOrder } from './order.ts';

const route = getRouteApi('/next');

function NextPage() {
  const viewer = useViewer();
  return (
    <>
      <PageTitle
        name="Who pays next"
        as={{ curl: curlOf(viewer, viewer.role === 'holder' ? '/v1/key' : '/v1/account/limits') }}
      />
      {viewer.role === 'holder' ? <OwnNext /> : <AccountNext />}
    </>
  );
}

const payerNames: Readonly<Record<Payer, string>> = {
  [Payer.UNSPECIFIED]: 'nothing: a request would be refused',
  [Payer.FREE]: 'nobody: it would be free',
  [Payer.SUBSCRIPTION]: 'the account’s plan',
  [Payer.KEY_BALANCE]: 'the key’s own balance',
  [Payer.ACCOUNT]: 'the account’s balance',
  [Payer.GROUP_BALANCE]: 'its group’s balance',
};

/** What a key's holder may know: the limits that bind the key, and what would pay. */
function OwnNext() {
  const own = useCall(AccountService.method.getOwnKey, {});
  return (
    <Shown of={own} height={240}>
      {({ limits, paysFrom, spendTodayNanoUsd, spendMonthNanoUsd }) => (
        <>
          <section className="panel" aria-label="Payer">
            <h2>The next request is paid from</h2>
            <p>{payerNames[paysFrom] ?? 'another payer'}</p>
            <p className="quiet">
              Spent today (UTC) <Amount nano={spendTodayNanoUsd} />, this month <Amount nano={spendMonthNanoUsd} />
            </p>
          </section>
          <LimitsPanel limits={limits} />
        </>
      )}
    </Shown>
  );
}

function LimitsPanel({ limits }: { readonly limits: readonly Limit[] }) {
  return (
    <section className="panel" aria-label="Limits">
      <h2>Limits that decide, in order</h2>
      {limits.length === 0 ? (
        <p className="quiet">No limit binds it. What pays decides alone.</p>
      ) : (
        <ol className="stack" style={{ paddingLeft: 20, margin: 0 }}>
          {limits.map(limit => (
            <li key={`${limit.limitId}`}>
              <LimitBar limit={limit} />
            </li>
          ))}
        </ol>
      )}
    </section>
  );
}

function AccountNext() {
  const source = useAccount();
  const { key: keyId, model } = route.useSearch();
  const keys = useQuery({
    queryKey: ['keys', source.name],
    queryFn: ({ signal }) => source.listKeys(signal),
  });
  return (
    <Shown of={keys} height={320}>
      {list => {
        const key = list.find(({ apiKeyId }) => Number(apiKeyId) === keyId) ?? list[0];
        if (key === undefined) return <Empty title="No key yet">Make one on the page Keys.</Empty>;
        return (
          <>
            <Choice keys={list} chosen={key} model={model} />
            <KeyNext apiKey={key} model={model} />
          </>
        );
      }}
    </Shown>
  );
}

function Choice({
  keys,
  chosen,
  model,
}: {
  readonly keys: readonly ApiKey[];
  readonly chosen: ApiKey;
  readonly model: string | undefined;
}) {
  const navigate = route.useNavigate();
  const models = useCall(CatalogService.method.listModels, {});
  const ids = (models.data?.models ?? []).map(({ id }) => id);
  return (
    <div className="filters">
      <NativeSelect
        className="field"
        size="xs"
        label="Key"
        value={`${chosen.apiKeyId}`}
        data={keys.map(({ apiKeyId, label }) => ({
          value: `${apiKeyId}`,
          label: label === '' ? `Key ${apiKeyId}` : label,
        }))}
        onChange={event => void navigate({ search: before => ({ ...before, key: Number(event.currentTarget.value) }) })}
      />
      <NativeSelect
        className="field"
        size="xs"
        label="Model"
        value={model ?? ''}
        data={[{ value: '', label: 'Any' }, ...ids.map(id => ({ value: id, label: id }))]}
        onChange={event =>
          void navigate({ search: before => ({ ...before, model: event.currentTarget.value || undefined }) })
        }
      />
    </div>
  );
}

const none: readonly Group[] = [];

function KeyNext({ apiKey, model }: { readonly apiKey: ApiKey; readonly model: string | undefined }) {
  const source = useAccount();
  const limits = useQuery({
    queryKey: ['limits', source.name],
    queryFn: ({ signal }) => source.listLimits(signal),
  });
  const groups = useQuery({ queryKey: ['groups', source.name], queryFn: ({ signal }) => source.listGroups(signal) });
  const balance = useQuery({
    queryKey: ['balance', source.name],
    queryFn: ({ signal }) => source.getBalance(signal),
  });
  const above = groupsAbove(apiKey, groups.data ?? none);
  const isAllowed =
    model === undefined || apiKey.allowedModels === undefined || apiKey.allowedModels.models.includes(model);
  return (
    <>
      {apiKey.disabled && (
        <p className="banner">The key is disabled: every request is refused until it is enabled again.</p>
      )}
      {!isAllowed && (
        <p className="banner">
          The key may not use this model by this name: its list of allowed models does not have it.
        </p>
      )}
      <section className="panel" aria-label="Payers">
        <h2>Payers, in order</h2>
        <Shown of={balance} height={60}>
          {({ balanceNanoUsd }) => (
            <ol style={{ paddingLeft: 20, margin: 0 }}>
              {payersInOrder(apiKey, above, balanceNanoUsd).map(({ name, nano }) => (
                <li key={name}>
                  {name}
                  {nano !== undefined && (
                    <>
                      {': '}
                      <Amount nano={nano} />
                    </>
                  )}
                </li>
              ))}
            </ol>
          )}
        </Shown>
      </section>
      <Shown of={limits} height={120}>
        {list => <LimitsPanel limits={bindingLimits(list, { apiKey, groups: above, model })} />}
      </Shown>
    </>
  );
}

/** The page that says what would decide and pay a key's next request. */
export const Route = createLazyRoute('/next')({ component: NextPage });
