import type { Command } from 'commander';
import type {
  ProviderKey,
  ProviderStatus,
  RouteError,
  RouteStatus,
  TestProviderResponse,
} from '../gen/tollgate/v1/admin_pb.ts';
import { isoTime } from '../lib/clock.ts';
import type { Document } from './output.ts';
import { type RemotePorts, ResourceCommands } from './remote.ts';
import type { ResourceView } from './resources.ts';

/** Adds `providers`, `routes` and `provider test`, which show the state of the gateway's providers. */
export function providerCommands(program: Command, ports: RemotePorts): void {
  new ResourceCommands(program, ports, providerView).list(
    'list the providers of the configuration and the state of their keys',
    async ({ admin }) => (await admin.listProviders({})).providers,
    'providers',
  );
  new ResourceCommands(program, ports, routeView).list(
    'list the routes of all models: state, last error, response times of the last five minutes',
    async ({ admin }) => (await admin.listRoutes({})).routes,
    'routes',
  );
  const group = program.command('provider').description('tests of a provider');
  new ResourceCommands(group, ports, testView)
    .one(
      'test',
      'test a provider: request one token, list its models, and try what a model can do',
      async ({ admin }, name: string, { model = '' }: { model?: string }) => admin.testProvider({ name, model }),
    )
    .argument('<name>', 'the provider, as the configuration names it')
    .option('--model <model>', 'the provider’s own name of the model to test (default: that of its first route)');
}

/** Shows a provider of the configuration. */
const providerView: ResourceView<ProviderStatus> = {
  document: ({ name, protocol, baseUrl, state, models, keys, lastError }) => ({
    name,
    protocol,
    base_url: baseUrl,
    state,
    models,
    keys: keys.map(keyDocument),
    last_error: errorDocument(lastError),
  }),
  row: ({ name, protocol, state, models, keys, lastError }) => ({
    name,
    protocol,
    state,
    models,
    keys: keys.map(keyText),
    last_error: errorText(lastError),
  }),
  columns: ['name', 'protocol', 'state', 'models', 'keys', 'last_error'],
};

/** Shows a route of a model; times are in milliseconds. */
const routeView: ResourceView<RouteStatus> = {
  document: routeDocument,
  row: route => {
    const { first_event: first, duration, ...others } = routeDocument(route);
    return {
      ...others,
      attempts: `${route.attempts} (${route.failures} failed)`,
      last_error: errorText(route.lastError),
      first_event_p50: first?.p50_ms,
      first_event_p99: first?.p99_ms,
      p50: duration?.p50_ms,
      p99: duration?.p99_ms,
    };
  },
  columns: [
    'model',
    'provider',
    'upstream_model',
    'state',
    'attempts',
    'first_event_p50',
    'first_event_p99',
    'p50',
    'p99',
    'last_error',
  ],
};

function routeDocument(route: RouteStatus) {
  const { model, provider, upstreamModel, priority, weight, strategy, state, attempts, failures } = route;
  return {
    model,
    provider,
    upstream_model: upstreamModel,
    priority,
    weight,
    strategy,
    state,
    attempts: Number(attempts),
    failures: Number(failures),
    last_error: errorDocument(route.lastError),
    first_event: timesDocument(route.firstEvent),
    duration: timesDocument(route.duration),
    answers_as: textOrNull(route.answersAs),
    cuts_input: route.cutsInput,
  };
}

/** Shows the result of a provider's test. */
const testView: ResourceView<TestProviderResponse> = {
  document: test => ({
    name: test.name,
    ok: test.ok,
    error: textOrNull(test.error),
    model: textOrNull(test.model),
    first_event_ms: rounded(test.firstEventMs),
    duration_ms: rounded(test.durationMs),
    reports_usage: test.reportsUsage,
    abilities: Object.fromEntries(test.abilities.map(({ name, ok, error }) => [name, ok ? true : error])),
    models: test.models,
    models_error: textOrNull(test.modelsError),
    keys: test.keys.map(keyDocument),
  }),
  text: test => ({
    provider: test.name,
    model: test.model,
    answer: test.ok ? 'yes' : `no: ${test.error}`,
    first_event: milliseconds(test.firstEventMs),
    whole_answer: milliseconds(test.durationMs),
    reports_usage: test.ok ? (test.reportsUsage ? 'yes' : 'no: the gateway estimates it') : '',
    ...Object.fromEntries(test.abilities.map(({ name, ok, error }) => [name, ok ? 'yes' : `no: ${error}`])),
    models: test.modelsError === '' ? modelsText(test.models) : `no list: ${test.modelsError}`,
    keys: test.keys.map(keyText),
  }),
  failure: ({ name, ok, error }) => (ok ? undefined : `Provider ${name} does not answer: ${error}`),
  columns: [],
};

const shownModels = 5;

function modelsText(models: readonly string[]): string {
  const more = models.length > shownModels ? `, and ${models.length - shownModels} more (--json lists them)` : '';
  return `${models.length}: ${models.slice(0, shownModels).join(', ')}${more}`;
}

const milliseconds = (ms: number | undefined): string => (ms === undefined ? '' : `${Math.round(ms)} ms`);

function keyDocument({ number, state, restsUntilMs, refusals, ...last }: ProviderKey): Document {
  return {
    number,
    state,
    rests_until: restsUntilMs === undefined ? null : isoTime(restsUntilMs),
    refusals,
    last_refusal:
      refusals === 0
        ? null
        : { at: isoTime(last.lastRefusedAtMs), status: last.lastStatus, message: textOrNull(last.lastMessage) },
  };
}

function keyText({ number, state, restsUntilMs, lastStatus }: ProviderKey): string {
  const until = restsUntilMs === undefined ? '' : ` until ${isoTime(restsUntilMs).slice(11, 19)}`;
  return `${number} ${state}${until}${state === 'working' ? '' : ` (${lastStatus})`}`;
}

function errorDocument(error: RouteError | undefined): Document | null {
  if (error === undefined) return null;
  const { atMs, result, status, message } = error;
  return { at: isoTime(atMs), result, status: status === 0 ? null : status, message: textOrNull(message) };
}

function errorText(error: RouteError | undefined): string {
  if (error === undefined) return '';
  const { atMs, result, status, message } = error;
  const what = status === 0 ? result.replaceAll('_', ' ') : String(status);
  return `${isoTime(atMs).slice(11, 19)} ${what}${message === '' ? '' : `: ${message.slice(0, 60)}`}`;
}

function timesDocument(times: RouteStatus['firstEvent']) {
  if (times === undefined) return null;
  return { count: times.count, p50_ms: Math.round(times.p50Ms), p99_ms: Math.round(times.p99Ms) };
}

const rounded = (ms: number | undefined): number | null => (ms === undefined ? null : Math.round(ms));

const textOrNull = (text: string): string | null => (text === '' ? null : text);
