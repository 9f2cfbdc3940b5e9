import { createRootRoute, createRoute, createRouter, redirect, retainSearchParams } from '@tanstack/react-router';
import { readActivitySearch } from './activity/search.ts';
import { Empty, PageTitle, Problem } from './parts/page.tsx';
import { Root } from './shell/root.tsx';
import { basePath } from './data/base-path.ts';

/** The search parameters of every page: the account that the operator looks at. */
export interface RootSearch {
  readonly account?: number | undefined;
}

function readRootSearch({ account }: Record<string, unknown>): RootSearch {
  return typeof account === 'number' && Number.isSafeInteger(account) && account > 0 ? { account } : {};
}

/** The key, the model and the tokens of the request to preview; absent: the first key, the first model, the default. */
interface NextSearch {
  readonly key?: number | undefined;
  readonly model?: string | undefined;
  readonly tokens?: number | undefined;
}

function readNextSearch({ key, model, tokens }: Record<string, unknown>): NextSearch {
  return {
    ...(typeof key === 'number' && { key }),
    ...(typeof tokens === 'number' && { tokens }),
    ...readTexts({ model }),
  };
}

/** The search of the model list, and the open model. */
interface ModelsSearch {
  readonly q?: string | undefined;
  readonly model?: string | undefined;
}

function readModelsSearch({ q, model }: Record<string, unknown>): ModelsSearch {
  return readTexts({ q, model });
}

/** The models and the interface of the playground. */
interface PlaygroundSearch {
  readonly model?: string | undefined;
  readonly beside?: string | undefined;
  readonly interface?: string | undefined;
}

function readPlaygroundSearch(search: Record<string, unknown>): PlaygroundSearch {
  return readTexts({ model: search['model'], beside: search['beside'], interface: search['interface'] });
}

/** Returns the values that are text or numbers as text; addresses do not distinguish the two. */
function readTexts<Name extends string>(values: Readonly<Record<Name, unknown>>): { [name in Name]?: string } {
  const kept = Object.entries(values).filter(
    ([, value]) => (typeof value === 'string' && value !== '') || typeof value === 'number',
  );
  return Object.fromEntries(kept.map(([name, value]) => [name, String(value)])) as { [name in Name]?: string };
}

const rootRoute = createRootRoute({
  component: Root,
  validateSearch: readRootSearch,
  search: { middlewares: [retainSearchParams<RootSearch>(['account'])] },
});
const parent = { getParentRoute: () => rootRoute } as const;

const indexRoute = createRoute({
  ...parent,
  path: '/',
  beforeLoad: () => {
    throw redirect({ to: '/now' });
  },
});
const activityRoute = createRoute({ ...parent, path: '/activity', validateSearch: readActivitySearch }).lazy(() =>
  import('./activity/activity-page.tsx').then(({ Route }) => Route),
);
const requestRoute = createRoute({ ...parent, path: '/activity/$requestId' }).lazy(() =>
  import('./request/request-page.tsx').then(({ Route }) => Route),
);

// The target of sign-in links. The token has already been removed from the address.
const signInRoute = createRoute({
  ...parent,
  path: '/sign-in',
  beforeLoad: () => {
    throw redirect({ to: '/now', replace: true });
  },
});
const nowRoute = createRoute({ ...parent, path: '/now' }).lazy(() =>
  import('./now/now-page.tsx').then(({ Route }) => Route),
);
const nextRoute = createRoute({ ...parent, path: '/next', validateSearch: readNextSearch }).lazy(() =>
  import('./next/next-page.tsx').then(({ Route }) => Route),
);
const keysRoute = createRoute({ ...parent, path: '/keys' }).lazy(() =>
  import('./keys/keys-page.tsx').then(({ Route }) => Route),
);
const keyRoute = createRoute({ ...parent, path: '/keys/$keyId' }).lazy(() =>
  import('./keys/key-page.tsx').then(({ Route }) => Route),
);
const accountsRoute = createRoute({ ...parent, path: '/accounts' }).lazy(() =>
  import('./accounts/accounts-page.tsx').then(({ Route }) => Route),
);
const modelsRoute = createRoute({ ...parent, path: '/models', validateSearch: readModelsSearch }).lazy(() =>
  import('./models/models-page.tsx').then(({ Route }) => Route),
);
const configurationRoute = createRoute({ ...parent, path: '/configuration' }).lazy(() =>
  import('./configuration/configuration-page.tsx').then(({ Route }) => Route),
);
const playgroundRoute = createRoute({ ...parent, path: '/playground', validateSearch: readPlaygroundSearch }).lazy(() =>
  import('./playground/playground-page.tsx').then(({ Route }) => Route),
);

/** The pages by their addresses below /dashboard. */
export const router = createRouter({
  routeTree: rootRoute.addChildren([
    indexRoute,
    signInRoute,
    nowRoute,
    activityRoute,
    requestRoute,
    nextRoute,
    keysRoute,
    keyRoute,
    accountsRoute,
    modelsRoute,
    configurationRoute,
    playgroundRoute,
  ]),
  basepath: basePath,
  defaultPreload: 'intent',
  defaultNotFoundComponent: () => (
    <>
      <PageTitle name="Page not found" />
      <Empty title="No page has this address">Choose one in the navigation.</Empty>
    </>
  ),
  defaultErrorComponent: ({ error, reset }) => <Problem error={error} retry={reset} />,
});

declare module '@tanstack/react-router' {
  interface Register {
    router: typeof router;
  }
}
