import { createClient } from '@connectrpc/connect';
import { Button } from '@mantine/core';
import { useQuery } from '@connectrpc/connect-query';
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { createLazyRoute } from '@tanstack/react-router';
import {
  AdminService,
  type ProviderStatus,
  type ReloadConfigurationResponse,
} from '../../../gen/tollgate/v1/admin_pb.ts';
import { transport } from '../data/rpc.ts';
import { fullTime } from '../data/time.ts';
import { PageTitle, Problem, Shown } from '../parts/page.tsx';
import { RouteState } from '../models/routes.tsx';

const admin = createClient(AdminService, transport);

function ConfigurationPage() {
  const client = useQueryClient();
  const gateway = useQuery(AdminService.method.describeGateway, {});
  const providers = useQuery(AdminService.method.listProviders, {});
  const reload = useMutation({
    mutationFn: () => admin.reloadConfiguration({}),
    onSettled: () => client.invalidateQueries(),
  });
  return (
    <>
      <PageTitle name="Configuration" as={{ cli: 'tollgate config check' }}>
        <Button size="xs" loading={reload.isPending} onClick={() => reload.mutate()}>
          Reload the file
        </Button>
      </PageTitle>
      {reload.error !== null && <Problem error={reload.error} />}
      {reload.data !== undefined && <Reloaded answer={reload.data} />}
      <section className="panel" aria-label="Gateway">
        <h2>Gateway</h2>
        <Shown of={gateway} height={40}>
          {({ publicUrl }) => (
            <dl className="facts">
              <dt>Clients find it at</dt>
              <dd>
                <code>{publicUrl}</code>
              </dd>
            </dl>
          )}
        </Shown>
      </section>
      <section className="panel" aria-label="Providers">
        <h2>Providers</h2>
        <Shown of={providers} height={80}>
          {({ providers: list }) =>
            list.length === 0 ? (
              <p className="quiet">
                No provider: the built-in models answer. Add one under <code>providers</code> in the configuration file,
                then reload it.
              </p>
            ) : (
              <ProviderTable providers={list} />
            )
          }
        </Shown>
      </section>
    </>
  );
}

function Reloaded({ answer }: { readonly answer: ReloadConfigurationResponse }) {
  const { file, providers, models, needsRestart } = answer;
  return (
    <p role="status" className="banner">
      {file === '' ? 'There is no configuration file; the defaults are in use.' : `${file} is in use now.`} {providers}{' '}
      providers, {models} models.
      {needsRestart.length > 0 && ` These keys have changed and wait for a restart: ${needsRestart.join(', ')}.`}
    </p>
  );
}

function ProviderTable({ providers }: { readonly providers: readonly ProviderStatus[] }) {
  return (
    <div className="scroll" tabIndex={0} role="region" aria-label="Table: Providers">
      <table className="plain">
        <thead>
          <tr>
            <th scope="col">Name</th>
            <th scope="col">Speaks</th>
            <th scope="col">Address</th>
            <th scope="col">State</th>
            <th scope="col">Keys</th>
            <th scope="col" className="right">
              Models
            </th>
            <th scope="col">Last error</th>
          </tr>
        </thead>
        <tbody>
          {providers.map(({ name, protocol, baseUrl, state, keys, models, lastError }) => (
            <tr key={name}>
              <th scope="row">{name}</th>
              <td>{protocol}</td>
              <td>
                <code>{baseUrl}</code>
              </td>
              <td>
                <RouteState state={state} />
              </td>
              <td className="small">
                {keys.length === 0
                  ? 'none needed'
                  : keys.map(key => (
                      <div key={key.number}>
                        {key.number}: {key.state}
                        {key.restsUntilMs !== undefined && ` until ${fullTime(key.restsUntilMs)}`}
                      </div>
                    ))}
              </td>
              <td className="right">{models}</td>
              <td className="small">{lastError === undefined ? 'none' : `${lastError.result} ${lastError.message}`}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** The operator's page of the running configuration. */
export const Route = createLazyRoute('/configuration')({ component: ConfigurationPage });
