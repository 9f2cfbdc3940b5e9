import { useQuery } from '@connectrpc/connect-query';
import { AdminService, type GetStorageResponse } from '../../../gen/tollgate/v1/admin_pb.ts';
import { bytesText, lifetimeText } from '../data/sizes.ts';
import { QueryResult, Tile } from '../parts/page.tsx';

const partNames: Readonly<Record<string, string>> = {
  database: 'PostgreSQL database',
  ledger: 'Ledger',
  ledger_wal: 'Ledger, write-ahead log',
  columns: 'Column files for sums, rebuilt from the ledger',
  content: 'Content',
  content_wal: 'Content, write-ahead log',
  images: 'Images by address',
  files: 'Files and batches',
  backups: 'Backups before upgrades',
};
const keptNames: Readonly<Record<string, string>> = {
  activity: 'Settled requests',
  audit: 'Audit log',
  webhook_events: 'Delivered webhook events',
  responses: 'Stored responses',
  bodies: 'Bodies of requests',
  image_files: 'Images by address',
};

/** Shows how much the gateway stores, how much space is left, and how long data is kept. */
export function Storage() {
  const storage = useQuery(AdminService.method.getStorage, {});
  return (
    <section className="panel" aria-label="Disk and retention">
      <h2>Disk and retention</h2>
      <QueryResult query={storage} height={200}>
        {read => <StorageFacts read={read} />}
      </QueryResult>
    </section>
  );
}

function StorageFacts({ read }: { readonly read: GetStorageResponse }) {
  const { engine, dataDir, freeBytes, totalBytes, problem, parts, retention } = read;
  const stored = parts.reduce((sum, { bytes }) => sum + bytes, 0n);
  const percent = totalBytes === 0n ? 0 : Number((100n * freeBytes) / totalBytes);
  return (
    <>
      {problem !== '' && (
        <div role="alert" className="problem">
          {problem}
        </div>
      )}
      <dl className="tiles">
        <Tile name="Free on the disk" note={`${percent} % of ${bytesText(totalBytes)}`}>
          <span title={`${freeBytes} bytes`}>{bytesText(freeBytes)}</span>
        </Tile>
        <Tile
          name="Stored"
          note={engine === 'postgres' ? 'in PostgreSQL and the data directory' : 'in the data directory'}
        >
          <span title={`${stored} bytes`}>{bytesText(stored)}</span>
        </Tile>
      </dl>
      <p className="small quiet">
        Data directory: <code>{dataDir}</code>
      </p>
      <div className="columns columns-top">
        <Parts parts={parts} />
        <Kept retention={retention} />
      </div>
    </>
  );
}

function Parts({ parts }: Pick<GetStorageResponse, 'parts'>) {
  return (
    <table className="plain" aria-label="Sizes">
      <thead>
        <tr>
          <th scope="col">What</th>
          <th scope="col" className="right">
            Size
          </th>
        </tr>
      </thead>
      <tbody>
        {parts.map(({ name, bytes }) => (
          <tr key={name}>
            <th scope="row">{partNames[name] ?? name}</th>
            <td className="right number" title={`${bytes} bytes`}>
              {bytesText(bytes)}
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function Kept({ retention }: Pick<GetStorageResponse, 'retention'>) {
  return (
    <table className="plain" aria-label="Retention">
      <thead>
        <tr>
          <th scope="col">What</th>
          <th scope="col">Kept for</th>
          <th scope="col">Set by</th>
        </tr>
      </thead>
      <tbody>
        {retention.map(({ name, lifetimeMs, setting }) => (
          <tr key={name}>
            <th scope="row">{keptNames[name] ?? name}</th>
            <td className="number">{lifetimeText(lifetimeMs)}</td>
            <td>{setting === '' ? <span className="quiet">fixed</span> : <code>{setting}</code>}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
