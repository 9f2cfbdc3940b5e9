import type { MessageInitShape } from '@bufbuild/protobuf';
import { GatewayError } from '../errors/gateway-error.ts';
import type {
  AdminService,
  ProviderKeySchema,
  ProviderStatusSchema,
  QuantilesSchema,
  RouteErrorSchema,
  RouteStatusSchema,
  TestProviderResponseSchema,
} from '../gen/tollgate/v1/admin_pb.ts';
import type { KeyHealth } from '../generation/upstream.ts';
import { defined } from '../lib/defined.ts';
import type { PushedService } from '../lib/pushed-service.ts';
import type { ProviderTest } from '../upstreams/provider-test.ts';
import { requireRow } from './account-fields.ts';
import { isWithoutKey, type LiveRoute } from './routing/live-routes.ts';
import type { RouteFindings } from './routing/route-findings.ts';
import type { Quantiles, RouteFailure } from './routing/route-record.ts';
import type { Router } from './routing/router.ts';

/** A configured provider. */
export interface ConfiguredProvider {
  readonly name: string;
  readonly protocol: string;
  readonly baseUrl: string;
  readonly keys: readonly KeyHealth[];
}

/** The sources of the operator's view of providers. */
export interface ProviderAdminOptions {
  readonly router: Pick<Router, 'routes' | 'strategy' | 'findings'>;
  /** Returns the providers that are in use. */
  readonly providers: () => readonly ConfiguredProvider[];
  /** Tests a provider that is in use; `model`: the provider's own name of a model. */
  readonly testProvider: (name: string, model: string | undefined) => Promise<ProviderTest>;
}

type Methods = Pick<PushedService<typeof AdminService>, 'listProviders' | 'listRoutes' | 'testProvider'>;

/** The methods of AdminService that show the state of providers and routes. */
export function providerAdmin({ router, providers, testProvider }: ProviderAdminOptions): Methods {
  const routesTo = (name: string): LiveRoute[] => router.routes().filter(({ provider }) => provider === name);
  return {
    listProviders: () => ({
      providers: providers().map(provider => providerStatus(provider, routesTo(provider.name))),
    }),
    listRoutes: () => ({
      routes: router
        .routes()
        .map(route => routeStatus(route, router.strategy(route.name.modelId), router.findings(route.name))),
    }),
    async testProvider({ name, model }) {
      const known = providers().map(provider => provider.name);
      if (!known.includes(name)) {
        const others = known.length === 0 ? 'the configuration has none' : `there are ${known.join(', ')}`;
        throw new GatewayError('not_found', `There is no provider ${name}: ${others}.`, { param: 'name' });
      }
      const own = model === '' ? routesTo(name)[0]?.model : model;
      const test = await testProvider(name, own);
      const tested = requireRow(
        providers().find(provider => provider.name === name),
        'provider',
        name,
      );
      return toTestResponse(name, test, tested.keys);
    },
  };
}

function providerStatus(
  { name, protocol, baseUrl, keys }: ConfiguredProvider,
  routes: readonly LiveRoute[],
): MessageInitShape<typeof ProviderStatusSchema> {
  const failures = routes.flatMap(({ record }) => record.lastFailure ?? []);
  const last = failures.toSorted((one, other) => other.atMs - one.atMs)[0];
  return {
    name,
    protocol,
    baseUrl,
    state: providerState(routes),
    keys: keys.map(toProviderKey),
    models: new Set(routes.map(route => route.name.modelId)).size,
    ...defined({ lastError: last && toRouteError(last) }),
  };
}

function providerState(routes: readonly LiveRoute[]): string {
  if (routes.length === 0) return 'unused';
  if (routes.every(isWithoutKey)) return 'no_key';
  return routes.some(({ breaker }) => breaker.passable) ? 'available' : 'failing';
}

function toProviderKey({
  number,
  state,
  restsUntilMs,
  refusals,
  last,
}: KeyHealth): MessageInitShape<typeof ProviderKeySchema> {
  return {
    number,
    state,
    refusals,
    lastStatus: last?.status ?? 0,
    lastRefusedAtMs: BigInt(last?.atMs ?? 0),
    lastMessage: last?.message ?? '',
    ...(restsUntilMs === undefined ? {} : { restsUntilMs: BigInt(Math.round(restsUntilMs)) }),
  };
}

function routeStatus(
  route: LiveRoute,
  strategy: string,
  { answersAs = '', cutsInput }: RouteFindings,
): MessageInitShape<typeof RouteStatusSchema> {
  const { name, record, breaker, priority, weight } = route;
  const closed = breaker.state === 'closed';
  return {
    model: name.modelId,
    provider: name.provider,
    upstreamModel: name.model,
    priority,
    weight,
    strategy,
    state: isWithoutKey(route) ? 'no_key' : closed ? 'available' : breaker.state,
    attempts: BigInt(record.attempts),
    failures: BigInt(record.failures),
    answersAs,
    cutsInput,
    ...defined({
      lastError: record.lastFailure && toRouteError(record.lastFailure),
      firstEvent: toQuantiles(record.firstEvent()),
      duration: toQuantiles(record.duration()),
    }),
  };
}

function toRouteError({ atMs, result, status, message }: RouteFailure): MessageInitShape<typeof RouteErrorSchema> {
  return { atMs: BigInt(atMs), result, status: status ?? 0, message: message ?? '' };
}

function toQuantiles(times: Quantiles | undefined): MessageInitShape<typeof QuantilesSchema> | undefined {
  return times && { ...times };
}

function toTestResponse(
  name: string,
  { error, model, firstEventMs, durationMs, reportsUsage, models, modelsError, abilities }: ProviderTest,
  keys: readonly KeyHealth[],
): MessageInitShape<typeof TestProviderResponseSchema> {
  return {
    name,
    model: model ?? '',
    ok: error === undefined,
    error: error ?? '',
    reportsUsage,
    models: [...models],
    modelsError: modelsError ?? '',
    abilities: abilities.map(({ name: ability, error: why }) => ({
      name: ability,
      ok: why === undefined,
      error: why ?? '',
    })),
    keys: keys.map(toProviderKey),
    ...defined({ firstEventMs, durationMs }),
  };
}
