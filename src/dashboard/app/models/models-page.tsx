import { TextInput } from '@mantine/core';
import { useQuery } from '@connectrpc/connect-query';
import { createLazyRoute, getRouteApi, Link } from '@tanstack/react-router';
import { CatalogService, type Model } from '../../../gen/tollgate/v1/catalog_pb.ts';
import { perMillion, perOne } from '../data/money.ts';
import { curlCommand, operatorCurl } from '../data/shell-words.ts';
import { useViewer } from '../data/viewer.ts';
import { type Column, DataTable } from '../parts/data-table.tsx';
import { Empty, PageTitle, QueryResult } from '../parts/page.tsx';
import { ModelPanel } from './model-panel.tsx';

const route = getRouteApi('/models');

/** Returns a model's abilities in words. */
export function abilities({ vision, functionCall, reasoning }: Model): string {
  return [vision && 'vision', functionCall && 'tools', reasoning && 'reasoning'].filter(Boolean).join(', ') || '–';
}

function inputPrice({ pricing }: Model): string {
  if (pricing?.inputPicoUsd !== undefined) return perMillion(pricing.inputPicoUsd);
  return pricing?.imageNanoUsd === undefined ? '–' : `${perOne(pricing.imageNanoUsd * 1000n)}/image`;
}

const columns: readonly Column<Model>[] = [
  {
    id: 'model',
    header: 'Model',
    width: 'minmax(200px, 1.4fr)',
    phone: 'lead',
    sortBy: model => model.id,
    cell: ({ id }) => (
      <Link to="/models" search={before => ({ ...before, model: id })} className="row-link">
        {id}
      </Link>
    ),
  },
  {
    id: 'owner',
    header: 'Offered by',
    width: 'minmax(120px, 1fr)',
    phone: 'below',
    sortBy: model => model.ownedBy,
    cell: ({ ownedBy }) => ownedBy,
  },
  { id: 'abilities', header: 'Can', width: '170px', cell: abilities },
  {
    id: 'context',
    header: 'Context',
    width: '96px',
    isRight: true,
    sortBy: model => model.contextLength ?? 0,
    cell: ({ contextLength }) => (contextLength === undefined ? '–' : contextLength.toLocaleString('en')),
  },
  {
    id: 'input',
    header: 'Input / 1M',
    width: '120px',
    isRight: true,
    phone: 'side',
    sortBy: ({ pricing }) => pricing?.inputPicoUsd ?? 0n,
    cell: inputPrice,
  },
  {
    id: 'output',
    header: 'Output / 1M',
    width: '110px',
    isRight: true,
    sortBy: ({ pricing }) => pricing?.outputPicoUsd ?? 0n,
    cell: ({ pricing }) => (pricing?.outputPicoUsd === undefined ? '–' : perMillion(pricing.outputPicoUsd)),
  },
  {
    id: 'state',
    header: 'State',
    width: '100px',
    phone: 'corner',
    cell: ({ available }) =>
      available ? <span className="settled">available</span> : <span className="pill pill-held">not now</span>,
  },
];

function ModelsPage() {
  const { q = '', model: chosen } = route.useSearch();
  const navigate = route.useNavigate();
  const viewer = useViewer();
  const models = useQuery(CatalogService.method.listModels, { query: q });
  const all = useQuery(CatalogService.method.listModels, {}, { enabled: chosen !== undefined });
  const shown = all.data?.models.find(({ id }) => id === chosen);
  const listed = {
    curl: curlCommand(viewer, q === '' ? '/v1/models' : `/v1/models?q=${encodeURIComponent(q)}`),
    ...(viewer.role === 'operator' && { cli: 'tollgate models list' }),
  };
  const routes = { of: 'routes', curl: operatorCurl(viewer, 'ListRoutes'), cli: 'tollgate routes' };
  const ways = viewer.role === 'operator' ? [{ of: 'models', ...listed }, routes] : listed;
  return (
    <>
      <PageTitle name="Models and prices" copyAs={ways}>
        <TextInput
          size="xs"
          aria-label="Search models"
          placeholder="Search"
          value={q}
          onChange={event =>
            void navigate({
              search: before => ({ ...before, q: event.currentTarget.value || undefined }),
              replace: true,
            })
          }
        />
      </PageTitle>
      {chosen !== undefined && shown !== undefined && <ModelPanel key={chosen} model={shown} />}
      {chosen !== undefined && all.data !== undefined && shown === undefined && (
        <Empty title={`No model is called ${chosen}`}>The list shows all models.</Empty>
      )}
      <QueryResult query={models} height={400}>
        {({ models: list }) =>
          list.length === 0 ? (
            <Empty title="No model">
              {q === '' ? 'Add a provider to the configuration.' : 'No model has this in its name. Clear the search.'}
            </Empty>
          ) : (
            <DataTable label="Models" columns={columns} rows={list} rowKey={({ id }) => id} />
          )
        }
      </QueryResult>
    </>
  );
}

/** The page of models and their prices. */
export const Route = createLazyRoute('/models')({ component: ModelsPage });
