import { useQuery } from '@connectrpc/connect-query';
import { AdminService, type ProviderStatus } from '../../../gen/tollgate/v1/admin_pb.ts';
import { attemptEnd } from '../data/attempt-end.ts';
import { fullTime } from '../data/time.ts';
import { RouteState } from '../models/routes.tsx';
import { QueryResult } from '../parts/page.tsx';

/** Shows the providers of the configuration and the state of their keys. */
export function Providers() {
  const providers = useQuery(AdminService.method.listProviders, {});
  return (
    <section className="panel" aria-label="Providers">
      <h2>Providers</h2>
      <QueryResult query={providers} height={80}>
        {({ providers: list }) =>
          list.length === 0 ? (
            <p className="quiet">
              No providers are configured, so the built-in models answer. Add a provider under <code>providers</code> in
              the configuration file, then reload it.
            </p>
          ) : (
            <ProviderTable providers={list} />
          )
        }
      </QueryResult>
    </section>
  );
}

function ProviderTable({ providers }: { readonly providers: readonly ProviderStatus[] }) {
  return (
    <div className="scroll" tabIndex={0} role="region" aria-label="Table: Providers">
      <table className="plain stacked">
        <thead>
          <tr>
            <th scope="col">Name</th>
            <th scope="col">Protocol</th>
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
              <td data-name="Protocol">{protocol}</td>
              <td data-name="Address">
                <code>{baseUrl}</code>
              </td>
              <td data-name="State">
                <RouteState state={state} />
              </td>
              <td data-name="Keys" className="small">
                {keys.length === 0
                  ? 'none needed'
                  : keys.map(key => (
                      <div key={key.number}>
                        {key.number}: {key.state}
                        {key.restsUntilMs !== undefined && ` until ${fullTime(key.restsUntilMs)}`}
                      </div>
                    ))}
              </td>
              <td data-name="Models" className="right">
                {models}
              </td>
              <td data-name="Last error" className="small">
                {lastError === undefined ? 'none' : `${attemptEnd(lastError.result)} ${lastError.message}`}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
