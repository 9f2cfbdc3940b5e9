import { createClient } from '@connectrpc/connect';
import { Button } from '@mantine/core';
import { useQuery } from '@connectrpc/connect-query';
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { createLazyRoute } from '@tanstack/react-router';
import {
  AdminService,
  type GetConfigurationResponse,
  type ReloadConfigurationResponse,
} from '../../../gen/tollgate/v1/admin_pb.ts';
import { transport } from '../data/rpc.ts';
import { operatorCurl } from '../data/shell-words.ts';
import { useViewer, type Viewer } from '../data/viewer.ts';
import { Moment } from '../parts/amount.tsx';
import type { OtherWays } from '../parts/copy.tsx';
import { PageTitle, Problem, QueryResult } from '../parts/page.tsx';
import { CheckText } from './check-text.tsx';
import { Providers } from './providers.tsx';
import { Settings } from './settings.tsx';
import { Storage } from './storage.tsx';

const admin = createClient(AdminService, transport);

function listWays(viewer: Viewer): readonly OtherWays[] {
  return [
    { of: 'settings', curl: operatorCurl(viewer, 'GetConfiguration'), cli: 'tollgate config running' },
    { of: 'reload', curl: operatorCurl(viewer, 'ReloadConfiguration'), cli: 'tollgate reload' },
    { of: 'providers', curl: operatorCurl(viewer, 'ListProviders'), cli: 'tollgate providers' },
    { of: 'disk and retention', curl: operatorCurl(viewer, 'GetStorage'), cli: 'tollgate storage' },
  ];
}

function ConfigurationPage() {
  const viewer = useViewer();
  const client = useQueryClient();
  const configuration = useQuery(AdminService.method.getConfiguration, {});
  const reload = useMutation({
    mutationFn: () => admin.reloadConfiguration({}),
    onSettled: () => client.invalidateQueries(),
  });
  const file = configuration.data?.file ?? '';
  return (
    <>
      <PageTitle name="Configuration" copyAs={listWays(viewer)}>
        <Button size="xs" loading={reload.isPending} onClick={() => reload.mutate()}>
          Reload the file
        </Button>
      </PageTitle>
      {reload.error !== null && <Problem error={reload.error} />}
      {reload.data !== undefined && <Reloaded answer={reload.data} />}
      <section className="panel" aria-label="In use">
        <h2>In use</h2>
        <QueryResult query={configuration} height={120}>
          {read => <InUse read={read} />}
        </QueryResult>
      </section>
      <CheckText file={file} />
      <Providers />
      <Storage />
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

function InUse({ read }: { readonly read: GetConfigurationResponse }) {
  const { file, readAtMs, needsRestart, settingsJson } = read;
  const gateway = useQuery(AdminService.method.describeGateway, {});
  return (
    <>
      <dl className="facts">
        <dt>Public address</dt>
        <dd>
          <code>{gateway.data?.publicUrl ?? '…'}</code>
        </dd>
        <dt>File</dt>
        <dd>{file === '' ? 'none: the defaults are in use' : <code>{file}</code>}</dd>
        <dt>Read</dt>
        <dd>
          <Moment ms={readAtMs} />
        </dd>
        <dt>Needs a restart</dt>
        <dd>
          {needsRestart.length === 0 ? (
            'nothing'
          ) : (
            <>
              <span className="pill pill-held">restart needed</span>{' '}
              {needsRestart.map((key, index) => (
                <span key={key}>
                  {index > 0 && ', '}
                  <code>{key}</code>
                </span>
              ))}
            </>
          )}
        </dd>
      </dl>
      <Settings json={settingsJson} />
    </>
  );
}

/** The operator's page of the running configuration. */
export const Route = createLazyRoute('/configuration')({ component: ConfigurationPage });
