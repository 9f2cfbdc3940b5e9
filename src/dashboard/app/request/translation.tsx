import { useQuery } from '@tanstack/react-query';
import { type KeptBody, type RequestBodies } from '../../../gen/tollgate/v1/bodies_pb.ts';
import { count } from '../data/money.ts';
import { fullTime } from '../data/time.ts';
import { may, useViewer } from '../data/viewer.ts';
import { CopyButton } from '../parts/copy.tsx';
import { QueryResult } from '../parts/page.tsx';
import { findImages } from './binary.ts';
import { BodyImages } from './body-images.tsx';
import { compareBodies, readJson } from './compare.ts';
import { Replay } from './replay.tsx';

interface TranslationProps {
  readonly requestId: string;
  readonly apiKeyId: bigint;
  /** Whether the request has a receipt. A request that failed or does not exist has none; then missing bodies are not mentioned. */
  readonly hasRecord: boolean;
}

/** Shows the bodies of a request: the client's, the contract's and the upstream's, if they were stored and the viewer may see them. */
export function Translation({ requestId, apiKeyId, hasRecord }: TranslationProps) {
  const viewer = useViewer();
  const { account } = viewer;
  const maySee = account !== undefined && may(viewer, 'account:bodies');
  const bodies = useQuery({
    queryKey: ['bodies', account?.name, requestId],
    queryFn: async ({ signal }) => (await account?.getBodies(requestId, signal)) ?? null,
    enabled: maySee,
  });
  if (!maySee || (!hasRecord && bodies.data == null)) return null;
  return (
    <section className="panel" aria-label="Translation">
      <h2>The translation</h2>
      <QueryResult query={bodies} height={80}>
        {found => (found === null ? <NotKept /> : <Bodies bodies={found} apiKeyId={apiKeyId} />)}
      </QueryResult>
    </section>
  );
}

function NotKept() {
  return (
    <p className="quiet">
      The bodies of this request were not kept. To keep those of a key, set “keep bodies” on the key’s page; to keep
      those of all keys, set <code>content.bodies</code> to <code>errors</code> or <code>all</code> in the
      configuration. Only requests that generate text have a translation: bodies of images, embeddings and rerank are
      never kept.
    </p>
  );
}

function Bodies({ bodies, apiKeyId }: { readonly bodies: RequestBodies; readonly apiKeyId: bigint }) {
  const { clientRequest, contractRequest, contractAnswer, clientAnswer, upstream, dropped, endsAtMs } = bodies;
  const last = upstream.at(-1);
  const name = last === undefined ? 'Upstream' : `Upstream: ${last.provider} ${last.model}`;
  return (
    <>
      <p className="quiet small">
        Kept until {fullTime(endsAtMs)}. <span className="line-only">Red lines</span> are on one side alone,{' '}
        <span className="line-changed">amber</span> ones have another value on the other side.
        {dropped.length > 0 && ` The upstream’s protocol can’t express: ${dropped.join(', ')}.`}
      </p>
      <h3>Request</h3>
      <div className="translation">
        <Body name="Client" body={clientRequest} other={last?.request} none="The caller used the RPC interface." />
        <Body name="Contract" body={contractRequest} none="Not kept." />
        <Body name={name} body={last?.request} other={clientRequest} none="A built-in model: nothing was sent." />
      </div>
      <h3>Answer</h3>
      <div className="translation">
        <Body name="Client" body={clientAnswer} other={last?.answer} none="Another process sent it." />
        <Body name="Contract" body={contractAnswer} none="Not kept." />
        <Body name={name} body={last?.answer} other={clientAnswer} none="A built-in model answered." />
      </div>
      {upstream.length > 1 && (
        <details>
          <summary className="small">Earlier attempts ({count(upstream.length - 1)})</summary>
          {upstream.slice(0, -1).map(({ provider, model, request, answer }, index) => (
            <div className="translation" key={index}>
              <Body name={`Sent to ${provider} ${model}`} body={request} none="Nothing." />
              <Body name="Came back" body={answer} none="Nothing." />
            </div>
          ))}
        </details>
      )}
      {contractRequest !== undefined && !contractRequest.cut && (
        <Replay contractJson={contractRequest.text} apiKeyId={apiKeyId} />
      )}
    </>
  );
}

interface BodyProps {
  readonly name: string;
  readonly body: KeptBody | undefined;
  readonly other?: KeptBody | undefined;
  readonly none: string;
}

function Body({ name, body, other, none }: BodyProps) {
  if (body === undefined || body.bytes === 0n) {
    return (
      <div>
        <p className="translation-head">{name}</p>
        <p className="quiet small">{none}</p>
      </div>
    );
  }
  const lines = compareBodies(body.text, other?.text ?? '');
  const images = findImages(readJson(body.text)?.value);
  return (
    <div>
      <p className="translation-head">
        {name} <span className="quiet small number">{count(body.bytes)} bytes</span>{' '}
        <CopyButton text={body.text} label={`what is shown of ${name}`} />
      </p>
      <pre className="body-text" tabIndex={0} role="region" aria-label={name}>
        {lines.map(({ text, mark }, index) => (
          <span key={index} className={mark === 'same' ? undefined : `line-${mark}`}>
            {`${text}\n`}
          </span>
        ))}
      </pre>
      {images.length > 0 && <BodyImages images={images} of={name} />}
      {body.cut && <p className="quiet small">The end of the body was not stored (content.body_bytes).</p>}
    </div>
  );
}
