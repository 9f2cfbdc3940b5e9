import { NativeSelect, TextInput } from '@mantine/core';
import { useQuery as useCall } from '@connectrpc/connect-query';
import { useQuery } from '@tanstack/react-query';
import { createLazyRoute, getRouteApi } from '@tanstack/react-router';
import {
  type ApiKey,
  type Limit,
  type NextPayer,
  type NextPayment,
  Payer,
} from '../../../gen/tollgate/v1/account_pb.ts';
import { CatalogService } from '../../../gen/tollgate/v1/catalog_pb.ts';
import { count } from '../data/money.ts';
import { curlCommand } from '../data/shell-words.ts';
import { fullTime } from '../data/time.ts';
import { useAccount, useViewer, type Viewer } from '../data/viewer.ts';
import { LimitBar } from '../keys/limit-bar.tsx';
import { Amount } from '../parts/amount.tsx';
import { Empty, PageTitle, QueryResult } from '../parts/page.tsx';

const route = getRouteApi('/next');

function NextPage() {
  const viewer = useViewer();
  return viewer.account === undefined ? <Next apiKeyId={viewer.apiKeyId} keys={noKeys} /> : <AccountNext />;
}

const noKeys: readonly ApiKey[] = [];

function AccountNext() {
  const source = useAccount();
  const { key: keyId } = route.useSearch();
  const keys = useQuery({ queryKey: ['keys', source.name], queryFn: ({ signal }) => source.listKeys(signal) });
  return (
    <QueryResult query={keys} height={320}>
      {list => {
        const chosen = list.find(({ apiKeyId }) => Number(apiKeyId) === keyId) ?? list[0];
        if (chosen === undefined) return <Empty title="No key yet">Make one on the page Keys.</Empty>;
        return <Next apiKeyId={chosen.apiKeyId} keys={list} />;
      }}
    </QueryResult>
  );
}

/** Shows the gateway's preview of a key's next request. */
function Next({ apiKeyId, keys }: { readonly apiKeyId: bigint; readonly keys: readonly ApiKey[] }) {
  const viewer = useViewer();
  const { model = '', tokens = 0 } = route.useSearch();
  const { requests } = viewer;
  const question = { apiKeyId, model, inputTokens: tokens };
  const payment = useQuery({
    queryKey: ['next', requests.name, question],
    queryFn: async ({ signal }) => (await requests.getNextPayment(question, signal)) ?? null,
  });
  return (
    <>
      <PageTitle name="Who pays next" copyAs={otherWays(viewer, apiKeyId, payment.data?.model ?? model)} />
      <Choice keys={keys} apiKeyId={apiKeyId} model={payment.data?.model ?? model} tokens={tokens} />
      <QueryResult query={payment} height={320}>
        {found => found && <Payment payment={found} />}
      </QueryResult>
    </>
  );
}

function otherWays(viewer: Viewer, apiKeyId: bigint, model: string) {
  const path = viewer.role === 'holder' ? '/v1/key/next' : `/v1/account/keys/${apiKeyId}/next`;
  return {
    curl: curlCommand(viewer, `${path}?model=${encodeURIComponent(model)}`),
    ...(viewer.role === 'operator' && { cli: `tollgate keys next ${apiKeyId} --model ${model}` }),
  };
}

interface ChoiceProps {
  readonly keys: readonly ApiKey[];
  readonly apiKeyId: bigint;
  readonly model: string;
  readonly tokens: number;
}

function Choice({ keys, apiKeyId, model, tokens }: ChoiceProps) {
  const navigate = route.useNavigate();
  const models = useCall(CatalogService.method.listModels, {});
  const ids = (models.data?.models ?? [])
    .filter(({ pricing, id }) => pricing?.outputPicoUsd !== undefined || id.endsWith(':free'))
    .map(({ id }) => id);
  const change = (values: { key?: number; model?: string; tokens?: number | undefined }): void =>
    void navigate({ search: before => ({ ...before, ...values }), replace: true });
  return (
    <div className="filters">
      {keys.length > 0 && (
        <NativeSelect
          className="field"
          size="xs"
          label="Key"
          value={`${apiKeyId}`}
          data={keys.map(each => ({
            value: `${each.apiKeyId}`,
            label: each.label === '' ? `Key ${each.apiKeyId}` : each.label,
          }))}
          onChange={event => change({ key: Number(event.currentTarget.value) })}
        />
      )}
      <NativeSelect
        className="field"
        size="xs"
        label="Model"
        value={model}
        data={ids.includes(model) ? ids : [model, ...ids]}
        onChange={event => change({ model: event.currentTarget.value })}
      />
      <TextInput
        className="field"
        size="xs"
        label="Input tokens"
        inputMode="numeric"
        placeholder="1000"
        value={tokens === 0 ? '' : `${tokens}`}
        onChange={event =>
          change({ tokens: Number(event.currentTarget.value.replaceAll(/\D/g, '').slice(0, 7)) || undefined })
        }
      />
    </div>
  );
}

function Payment({ payment }: { readonly payment: NextPayment }) {
  const { admitted, message, tip, refusal, payers, limits, refusingLimitId, heldNanoUsd, outputTokens } = payment;
  return (
    <>
      <section className="panel" aria-label="Decision">
        <h2>The next request, with {count(payment.inputTokens)} input tokens</h2>
        {admitted ? (
          <p>
            It would begin, holding <Amount nano={heldNanoUsd} />
            {outputTokens === undefined
              ? ': it costs nothing.'
              : ` for its input and the first ${count(outputTokens)} output tokens.`}
          </p>
        ) : (
          <div className="problem">
            <p>It would be refused. {message}</p>
            {tip !== '' && <p className="quiet">{tip}</p>}
            <p className="small quiet">
              <code>{refusal}</code>
            </p>
          </div>
        )}
      </section>
      <section className="panel" aria-label="Payers">
        <h2>Payers, in order</h2>
        {payers.length === 0 ? (
          <p className="quiet">None: neither the key’s settings nor the plan allows a payer.</p>
        ) : (
          <ol style={{ paddingLeft: 20, margin: 0 }}>
            {payers.map(each => (
              <li key={`${each.payer} ${each.groupId}`}>
                <PayerLine payer={each} />
              </li>
            ))}
          </ol>
        )}
      </section>
      <LimitsPanel limits={limits} refusing={refusingLimitId} />
    </>
  );
}

const payerNames: Readonly<Record<Payer, string>> = {
  [Payer.UNSPECIFIED]: 'Another payer',
  [Payer.FREE]: 'Nobody: it is free',
  [Payer.SUBSCRIPTION]: 'The tokens of the account’s plan',
  [Payer.KEY_BALANCE]: 'The key’s own balance',
  [Payer.ACCOUNT]: 'The account’s balance',
  [Payer.GROUP_BALANCE]: 'The balance of group',
};

function PayerLine({ payer: { payer, groupId, leftNanoUsd, leftTokens, resetsAtMs } }: { readonly payer: NextPayer }) {
  return (
    <>
      {payerNames[payer] ?? 'Another payer'}
      {groupId !== 0n && ` ${groupId}`}
      {leftNanoUsd !== undefined && (
        <>
          {': '}
          <Amount nano={leftNanoUsd} /> available
        </>
      )}
      {leftTokens !== undefined && `: ${count(leftTokens)} tokens left`}
      {resetsAtMs !== undefined && <span className="quiet">, new ones at {fullTime(resetsAtMs)}</span>}
    </>
  );
}

function LimitsPanel({ limits, refusing }: { readonly limits: readonly Limit[]; readonly refusing: bigint }) {
  return (
    <section className="panel" aria-label="Limits">
      <h2>Limits that apply, in the order in which they are checked</h2>
      {limits.length === 0 ? (
        <p className="quiet">No limit applies. Only the balance or plan that pays decides.</p>
      ) : (
        <ol className="stack" style={{ paddingLeft: 20, margin: 0 }}>
          {limits.map(limit => (
            <li key={`${limit.limitId}`}>
              <LimitBar limit={limit} />
              {limit.limitId === refusing && <span className="failed small">This limit refuses the request.</span>}
            </li>
          ))}
        </ol>
      )}
    </section>
  );
}

/** The page that shows which limits apply to a key's next request, and who would pay for it. */
export const Route = createLazyRoute('/next')({ component: NextPage });
