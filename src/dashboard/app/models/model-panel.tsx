import { Link } from '@tanstack/react-router';
import { Endpoint } from '../../../gen/tollgate/v1/request_pb.ts';
import type { Model } from '../../../gen/tollgate/v1/catalog_pb.ts';
import { count } from '../data/money.ts';
import { useViewer } from '../data/viewer.ts';
import { CopyButton } from '../parts/copy.tsx';
import { Calculator } from './calculator.tsx';
import { Routes } from './routes.tsx';

/** The path of each endpoint. The type requires all, so that a new endpoint does not compile without its path. */
const listed = {
  [Endpoint.CHAT_COMPLETIONS]: '/v1/chat/completions',
  [Endpoint.RESPONSES]: '/v1/responses',
  [Endpoint.MESSAGES]: '/v1/messages',
  [Endpoint.GEMINI]: '/v1beta/models/{model}:generateContent',
  [Endpoint.IMAGE_GENERATIONS]: '/v1/images/generations',
  [Endpoint.IMAGE_EDITS]: '/v1/images/edits',
  [Endpoint.EMBEDDINGS]: '/v1/embeddings',
  [Endpoint.GEMINI_EMBEDDINGS]: '/v1beta/models/{model}:embedContent',
  [Endpoint.RERANK]: '/v1/rerank',
  [Endpoint.COMPLETIONS]: '/v1/completions',
} satisfies Readonly<Record<(typeof Endpoint)[Exclude<keyof typeof Endpoint, 'UNSPECIFIED'>], string>>;
const paths = new Map(Object.entries(listed).map(([endpoint, path]) => [Number(endpoint), path]));

/** Shows one model: its features, the cost of a request and, to the operator, its routes. */
export function ModelPanel({ model }: { readonly model: Model }) {
  const { role } = useViewer();
  const { id, name, description, contextLength, maxOutputTokens, endpoints, dimensions, maxSize } = model;
  return (
    <section className="panel" aria-label={`Model ${id}`}>
      <div className="title">
        <h2>
          {id} <CopyButton text={id} label="the model’s id" />
        </h2>
        <Link to="/models" search={before => ({ ...before, model: undefined })} className="small">
          Close
        </Link>
      </div>
      <dl className="facts" style={{ marginBottom: 16 }}>
        <dt>Name</dt>
        <dd>
          {name} {description !== '' && <span className="quiet">{description}</span>}
        </dd>
        <dt>Paths</dt>
        <dd>{endpoints.map(endpoint => paths.get(endpoint) ?? 'another').join(', ')}</dd>
        {contextLength !== undefined && (
          <>
            <dt>Context</dt>
            <dd>{count(contextLength)} tokens</dd>
          </>
        )}
        {maxOutputTokens !== undefined && (
          <>
            <dt>Output at most</dt>
            <dd>{count(maxOutputTokens)} tokens</dd>
          </>
        )}
        {maxSize !== '' && (
          <>
            <dt>Largest image</dt>
            <dd>{maxSize}</dd>
          </>
        )}
        {dimensions && (
          <>
            <dt>Vectors</dt>
            <dd>of any requested length</dd>
          </>
        )}
      </dl>
      <h2>What a request costs</h2>
      <Calculator model={model} />
      {role === 'operator' && <Routes model={id} />}
    </section>
  );
}
