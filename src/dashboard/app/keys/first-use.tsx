import { Button, NativeSelect } from '@mantine/core';
import { useQuery as useCall } from '@connectrpc/connect-query';
import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { useState } from 'react';
import type { ApiKey } from '../../../gen/tollgate/v1/account_pb.ts';
import { CatalogService } from '../../../gen/tollgate/v1/catalog_pb.ts';
import { Endpoint } from '../../../gen/tollgate/v1/request_pb.ts';
import { clientSnippets } from '../data/clients.ts';
import { useAccount, useViewer } from '../data/viewer.ts';
import { Amount, Moment } from '../parts/amount.tsx';
import { Snippet } from '../parts/copy.tsx';

interface FirstUseProps {
  /** The new key, with its full secret, which is shown only now. */
  readonly apiKey: ApiKey;
  readonly onDone: () => void;
}

/** Shows a new key's secret, code for clients with the key filled in, and the key's first call once it has come. */
export function FirstUse({ apiKey, onDone }: FirstUseProps) {
  const { publicUrl } = useViewer();
  const [client, setClient] = useState('curl');
  const [model, setModel] = useState<string>();
  const models = useCall(CatalogService.method.listModels, { available: true, endpoint: Endpoint.CHAT_COMPLETIONS });
  const ids = (models.data?.models ?? []).map(({ id }) => id);
  const chosen = model ?? ids[0] ?? 'MODEL';
  const make = clientSnippets[client] ?? clientSnippets['curl'];
  return (
    <section className="panel" aria-label="New key">
      <div className="title">
        <h2>Key {apiKey.label === '' ? `${apiKey.apiKeyId}` : apiKey.label}: make its first call</h2>
        <Button size="xs" variant="default" onClick={onDone}>
          Done
        </Button>
      </div>
      <p>Copy the key now. The gateway keeps only its hash and can’t show it again.</p>
      <Snippet text={apiKey.key} label="key" />
      <div className="filters" style={{ marginTop: 12 }}>
        <NativeSelect
          className="field"
          size="xs"
          label="Client"
          value={client}
          data={Object.keys(clientSnippets)}
          onChange={event => setClient(event.currentTarget.value)}
        />
        <NativeSelect
          className="field"
          size="xs"
          label="Model"
          value={chosen}
          data={ids.length === 0 ? [chosen] : ids}
          onChange={event => setModel(event.currentTarget.value)}
        />
      </div>
      {make !== undefined && <Snippet text={make({ url: publicUrl, key: apiKey.key, model: chosen })} label={client} />}
      <FirstCall apiKeyId={apiKey.apiKeyId} />
    </section>
  );
}

function FirstCall({ apiKeyId }: { readonly apiKeyId: bigint }) {
  const source = useAccount();
  const { data } = useQuery({
    queryKey: ['first call', source.name, apiKeyId],
    queryFn: async ({ signal }) => (await source.listActivity({ apiKeyId, limit: 1 }, signal))[0] ?? null,
  });
  if (data == null) {
    return (
      <p role="status" style={{ marginTop: 12 }}>
        <span className="pill pill-held">Waiting</span> for the key’s first call…
      </p>
    );
  }
  return (
    <p role="status" style={{ marginTop: 12 }}>
      <span className="settled">First call:</span>{' '}
      <Link to="/activity/$requestId" params={{ requestId: data.requestId }}>
        <code>{data.requestId}</code>
      </Link>{' '}
      to {data.model} at <Moment ms={data.createdAtMs} />, <Amount nano={data.costNanoUsd} />
    </p>
  );
}
