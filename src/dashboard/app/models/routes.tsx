import { Code, ConnectError, createClient } from '@connectrpc/connect';
import { Button } from '@mantine/core';
import { useQuery } from '@connectrpc/connect-query';
import { useMutation } from '@tanstack/react-query';
import { AdminService, type RouteStatus, type TestProviderResponse } from '../../../gen/tollgate/v1/admin_pb.ts';
import { attemptEnd } from '../data/attempt-end.ts';
import { transport } from '../data/rpc.ts';
import { durationText } from '../data/time.ts';
import { Moment } from '../parts/amount.tsx';
import { Problem, QueryResult } from '../parts/page.tsx';

const admin = createClient(AdminService, transport);

/** Shows a route's state: plain text if the route works, a coloured label if not. */
export function RouteState({ state }: { readonly state: string }) {
  // `unused` is not a failure: the provider has no route.
  if (state === 'unused') return <span className="quiet">unused</span>;
  if (state === 'available') return <span className="settled">available</span>;
  return (
    <span className={state === 'half_open' ? 'pill pill-held' : 'pill pill-failed'}>{state.replace('_', ' ')}</span>
  );
}

/** Lists a model's routes in the order in which requests use them, each with a test. */
export function Routes({ model }: { readonly model: string }) {
  const routes = useQuery(AdminService.method.listRoutes, {});
  return (
    <>
      <h2>Routes, in order</h2>
      <QueryResult query={routes} height={60}>
        {({ routes: all }) => {
          const own = all.filter(each => each.model === model);
          if (own.length === 0)
            return <p className="quiet">This model is built into the gateway, and has no routes.</p>;
          return (
            <div className="scroll" tabIndex={0} role="region" aria-label="Table: Routes of the model">
              <table className="plain stacked">
                <thead>
                  <tr>
                    <th scope="col">Provider</th>
                    <th scope="col">Provider’s name</th>
                    <th scope="col" className="right">
                      Priority
                    </th>
                    <th scope="col" className="right">
                      Weight
                    </th>
                    <th scope="col">State</th>
                    <th scope="col" className="right">
                      First token, median
                    </th>
                    <th scope="col">Last error</th>
                    <th scope="col">Test</th>
                  </tr>
                </thead>
                <tbody>
                  {own.map(each => (
                    <RouteRow key={`${each.provider} ${each.upstreamModel}`} route={each} />
                  ))}
                </tbody>
              </table>
            </div>
          );
        }}
      </QueryResult>
    </>
  );
}

function RouteRow({ route }: { readonly route: RouteStatus }) {
  const { provider, upstreamModel, priority, weight, state, firstEvent, lastError } = route;
  const test = useMutation({ mutationFn: () => admin.testProvider({ name: provider, model: upstreamModel }) });
  return (
    <tr>
      <th scope="row">{provider}</th>
      <td data-name="Its model">{upstreamModel}</td>
      <td data-name="Priority" className="right">
        {priority}
      </td>
      <td data-name="Weight" className="right">
        {weight}
      </td>
      <td data-name="State">
        <RouteState state={state} />
      </td>
      <td data-name="First token, median" className="right">
        {firstEvent === undefined ? '–' : durationText(firstEvent.p50Ms)}
      </td>
      <td data-name="Last error" className="small">
        {lastError === undefined ? (
          'none'
        ) : (
          <>
            <Moment ms={lastError.atMs} /> {attemptEnd(lastError.result)}{' '}
            {lastError.status > 0 && `(HTTP ${lastError.status})`} {lastError.message}
          </>
        )}
      </td>
      <td>
        <Button size="compact-xs" variant="default" loading={test.isPending} onClick={() => test.mutate()}>
          Send one token
        </Button>
        {test.data !== undefined && <TestResult result={test.data} />}
        {test.error !== null && ConnectError.from(test.error).code !== Code.Canceled && <Problem error={test.error} />}
      </td>
    </tr>
  );
}

function TestResult({ result }: { readonly result: TestProviderResponse }) {
  const { ok, error, firstEventMs, durationMs } = result;
  if (!ok) return <p className="small failed">{error}</p>;
  const times = [firstEventMs, durationMs].filter(ms => ms !== undefined).map(ms => durationText(ms));
  return (
    <p className="small settled">Answered{times.length > 0 && ` (${times.join(' to the first token, ')} in all)`}</p>
  );
}
