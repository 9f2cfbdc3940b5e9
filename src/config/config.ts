import { readFileSync } from 'node:fs';
import { defined } from '../lib/defined.ts';
import { closest } from '../lib/closest.ts';
import { ConfigError, type Problem } from './config-error.ts';
import { checkConsistency } from './consistency.ts';
import { findModelKind, kindRules } from './model-kind.ts';
import type { Environment, Variables } from './env.ts';
import { cachingMember } from './listed-model.ts';
import { readKeyFiles } from './key-files.ts';
import { type CompleteFile, completeProviders, type CompleteProvider } from './complete-providers.ts';
import { presetKeyVariables, presetModelIds, findServer } from './presets.ts';
import { identityProviderSettings } from './identity-provider.ts';
import { rpcSettings, tlsSettings } from './rpc-settings.ts';
import { unknownKeyMark } from './scalars.ts';
import {
  fileSchema,
  type ParsedCaching,
  type ParsedFile,
  type ParsedModel,
  type ParsedPlan,
  type ParsedPricing,
  type ParsedTimeouts,
} from './schema.ts';
import { readVariableFiles } from './secret-sources.ts';
import { Secret } from './secrets.ts';
import type {
  Config,
  ImagePriceSettings,
  ImageTokenPricingSettings,
  ModelSettings,
  PlanSettings,
  PricingSettings,
  ProviderSettings,
  Timeouts,
} from './settings.ts';
import { pathText, readYaml, variableNames, type YamlPath, type YamlSource } from './yaml-source.ts';

/** The file that is read if neither the command line nor `TOLLGATE_CONFIG` names one and it exists. */
export const defaultConfigPath = './tollgate.yaml';

/** Where to read the configuration from. */
export interface LoadOptions {
  /**
   * The file that the command line names; absent: `TOLLGATE_CONFIG`, else `./tollgate.yaml` if it exists, else the
   * defaults.
   */
  readonly path?: string;
  readonly environment: Pick<Environment, 'configPath' | 'variables'>;
  /** The ids of the built-in models, which aliases and plans may name. */
  readonly builtInIds: readonly string[];
}

/** Reads and checks the configuration. Throws `ConfigError` with every problem, for example a named file that does not exist. */
export function loadConfig({ path, environment, builtInIds }: LoadOptions): Config {
  const named = path ?? environment.configPath;
  const file = named ?? defaultConfigPath;
  let text: string;
  try {
    text = readFileSync(file, 'utf8');
  } catch (error) {
    const missing = error instanceof Error && 'code' in error && error.code === 'ENOENT';
    if (missing && named === undefined) return parseConfig('', '', { variables: environment.variables, builtInIds });
    const reason = missing ? 'does not exist' : error instanceof Error ? error.message : String(error);
    throw new ConfigError([{ file, path: '', message: `can't be read: ${reason}` }]);
  }
  return parseConfig(file, text, { variables: environment.variables, builtInIds });
}

/** Parses a configuration; `file` names it in errors, '' if there is no file. Throws `ConfigError`. */
export function parseConfig(
  file: string,
  text: string,
  {
    variables: environmentVariables,
    builtInIds,
  }: { readonly variables: Variables; readonly builtInIds: readonly string[] },
): Config {
  const { variables, sources } = readVariableFiles(environmentVariables, [
    ...presetKeyVariables,
    ...variableNames(text),
  ]);
  const source = readYaml(file, text, variables);
  const problems: Problem[] = [...source.problems];
  if (source.isBroken) throw new ConfigError(problems);
  const report = (path: YamlPath, message: string): void => {
    // A `${NAME}` that can't be read is already reported, and its text breaks the schema too.
    const place = pathText(path);
    if (problems.some(problem => problem.path === place && problem.line === source.findLine(path))) return;
    problems.push({ file, line: source.findLine(path), path: place, message: withCurrentValue(source, path, message) });
  };
  const own = fileSchema.safeParse(source.value);
  const parsed = own.success ? { ...own, data: completeProviders(own.data, variables, report) } : own;
  if (parsed.success) checkConsistency(parsed.data, { builtIn: builtInIds, preset: presetIds(parsed.data) }, report);
  else for (const issue of parsed.error.issues) reportIssue(issue, report);
  const keyed = parsed.success ? readKeyFiles(file, parsed.data, report) : undefined;
  if (problems.length > 0 || keyed === undefined) {
    throw new ConfigError(problems.sort((a, b) => (a.line ?? 0) - (b.line ?? 0)));
  }
  const settings = toSettings(keyed.file);
  const secretSources = [...sources, ...keyed.sources];
  return deepFreeze({
    ...settings,
    ...(file === '' ? {} : { file }),
    ...(secretSources.length === 0 ? {} : { secretSources }),
  });
}

/** Matches a text that contains an address (`//…`) that may contain a password or a key. */
const addressWithCredentials = /\/\/.*[@?#]/;
/** The same if the whole text is an address, so that it may lack its scheme. */
const credentialsInAddress = /[@?#]/;

/** Puts the current value before the allowed ones, if it is short and not secret. */
function withCurrentValue(source: YamlSource, path: YamlPath, message: string): string {
  const shown = source.findPrintableValue(path);
  const isAddress = ['base_url', 'protocols', 'public_url'].some(name => path.includes(name));
  const hidden = isAddress ? credentialsInAddress : addressWithCredentials;
  const secret =
    ['api_key', 'api_key_file', 'headers', 'token', 'credentials'].some(name => path.includes(name)) ||
    hidden.test(shown ?? '');
  if (shown === undefined || secret) return message;
  if (message.startsWith('names')) return `${shown} ${message}`;
  return message.startsWith('must') ? `is ${shown}, ${message}` : message;
}

type Issue = NonNullable<ReturnType<typeof fileSchema.safeParse>['error']>['issues'][number];

function reportIssue(issue: Issue, report: (path: YamlPath, message: string) => void): void {
  const path = issue.path.filter(step => typeof step !== 'symbol');
  if (issue.code === 'unrecognized_keys') {
    const known = issue.message.slice(unknownKeyMark.length).split(' ');
    for (const key of issue.keys) {
      const near = closest(key, known);
      const hint = near === undefined ? '' : `did you mean ${near}? `;
      report([...path, key], `is not a known key; ${hint}allowed here: ${known.join(', ')}`);
    }
  } else if (issue.code === 'invalid_key') {
    report(path, `the name ${issue.issues[0]?.message ?? 'is not allowed'}`);
  } else {
    report(path, issue.message);
  }
}

const standardTimeouts: Timeouts = { connectMs: 10_000, firstEventMs: 300_000, idleMs: 120_000, totalMs: 3_600_000 };

/** Returns the ids of the models of the enabled presets. */
function presetIds({ providers }: CompleteFile): string[] {
  return presetModelIds(Object.values(providers).flatMap(({ preset }) => preset ?? []));
}

function toSettings(file: CompleteFile): Config {
  const timeouts = toTimeouts(file.timeouts, standardTimeouts);
  const { docs, support, community, ...texts } = file.texts;
  const { enabled, tokens_per_second: tokensPerSecond, steering } = file.simulator;
  return {
    ...(file.public_url === undefined ? {} : { publicUrl: file.public_url }),
    shutdownGraceMs: file.shutdown_grace,
    keepAliveMs: file.keep_alive,
    corsOrigins: file.cors_origins,
    trustedProxies: file.trusted_proxies,
    metrics: file.metrics,
    logLevel: file.log_level,
    strict: file.strict,
    exposeRoute: file.expose_route,
    dailyLimitUnit: file.daily_limit_unit,
    timeouts,
    retries: file.retries,
    capacity: { waitMs: file.capacity.wait },
    ...defined({ tls: tlsSettings(file.tls) }),
    rpc: rpcSettings(file),
    ...defined({ identityProvider: identityProviderSettings(file) }),
    limits: {
      bodyBytes: file.limits.body_bytes,
      otherBodyBytes: file.limits.other_body_bytes,
      bodyDepth: file.limits.body_depth,
      bodyValues: file.limits.body_values,
      listEntries: file.limits.list_entries,
      bodyMemoryBytes: file.limits.body_memory,
      accountBodyMemoryBytes: file.limits.account_body_memory,
      memoryWaitMs: file.limits.memory_wait,
      parseMemoryBytes: file.limits.parse_memory,
      parseMs: file.limits.parse_time,
      stallMs: file.limits.stall_timeout,
      unsentMemoryBytes: file.limits.unsent_memory,
      sessionMemoryBytes: file.limits.session_memory,
      accountSessionMemoryBytes: file.limits.account_session_memory,
      runningChoices: file.limits.running_choices,
      accountRunningChoices: file.limits.account_running_choices,
      addressRequests: file.limits.address_requests,
      answerBytes: file.limits.answer_bytes,
      wholeAnswerBytes: file.limits.whole_answer_bytes,
      upstreamEventBytes: file.limits.upstream_event_bytes,
      imageFileBytes: file.limits.image_file_bytes,
      imageTasks: file.limits.image_tasks,
      imageTaskQueue: file.limits.image_task_queue,
    },
    overload: {
      loopLagMs: file.overload.loop_lag,
      heapPermille: file.overload.heap,
      sliceMs: file.overload.slice,
      queue: file.overload.queue,
    },
    ledger: { settleTimeoutMs: file.ledger.settle_timeout, writeOffMaxNanoUsd: file.ledger.write_off_limit },
    retention: toRetentionSettings(file),
    webhooks: { allowPrivate: file.webhooks.allow_private },
    batches: toBatchSettings(file),
    content: toContentSettings(file),
    texts: { ...texts, ...defined({ docs, support, community }) },
    simulator: { enabled, tokensPerSecond, steering },
    providers: Object.entries(file.providers).map(([name, provider]) => toProvider(name, provider, timeouts)),
    models: file.models.map(toModel),
    discovered: file.discovered.map(({ models, pricing }) => ({ models, pricing: toPricing(pricing) })),
    aliases: new Map(Object.entries(file.aliases)),
    plans: {
      core: toPlan(file.plans?.core, standardPlans.core),
      core_pro: toPlan(file.plans?.core_pro, standardPlans.core_pro),
    },
  };
}

function toRetentionSettings({ retention }: ParsedFile): Config['retention'] {
  return { activityMs: retention.activity, auditMs: retention.audit };
}

function toContentSettings({ content }: ParsedFile): Config['content'] {
  return {
    bytesMax: content.max_bytes,
    replayBytesMax: content.replay_bytes,
    responseLifetimeMs: content.response_lifetime,
    bodies: content.bodies,
    bodyBytesMax: content.body_bytes,
    bodyLifetimeMs: content.body_lifetime,
  };
}

function toBatchSettings({ batches }: ParsedFile): Config['batches'] {
  return { concurrency: batches.concurrency, fileBytes: batches.file_bytes, diskBytes: batches.disk_bytes };
}

function toTimeouts(parsed: ParsedTimeouts | undefined, standard: Timeouts): Timeouts {
  return {
    connectMs: parsed?.connect ?? standard.connectMs,
    firstEventMs: parsed?.first_event ?? standard.firstEventMs,
    idleMs: parsed?.idle ?? standard.idleMs,
    totalMs: parsed?.total ?? standard.totalMs,
  };
}

function toProvider(name: string, provider: CompleteProvider, timeouts: Timeouts): ProviderSettings {
  const { cloudSettings: cloud } = provider;
  const dialect = cloud === undefined ? findServer(name, provider.base_url) : cloud.kind;
  return {
    name,
    ...defined({ preset: provider.preset, dialect, cloud, rerankUrl: provider.rerankUrl }),
    protocol: provider.protocol,
    baseUrl: provider.base_url,
    ...(provider.others.length === 0 ? {} : { others: provider.others }),
    apiKeys: provider.api_key ?? [],
    headers: Object.fromEntries(
      Object.entries(provider.headers).map(([header, value]) => [header.toLowerCase(), value]),
    ),
    timeouts: toTimeouts(provider.timeouts, timeouts),
    passthrough: provider.passthrough,
    ...defined({ tokenIds: provider.token_ids }),
    ...(provider.concurrency === undefined
      ? {}
      : {
          concurrency: {
            slots: provider.concurrency,
            waitersMax: provider.queue,
            waitMs: provider.queue_timeout,
          },
        }),
  };
}

function toModel(model: ParsedModel): ModelSettings {
  const { id, capabilities, routes } = model;
  const slash = id.indexOf('/');
  return {
    id,
    name: model.name ?? id,
    description: model.description,
    ownedBy: model.owned_by ?? (slash > 0 ? id.slice(0, slash) : (routes[0]?.provider ?? 'tollgate')),
    createdAt: model.created,
    ...defined({ contextLength: model.context_length, maxOutputTokens: model.max_output_tokens }),
    endpoints: model.endpoints,
    vision: capabilities.vision,
    functionCall: capabilities.function_call,
    reasoning: capabilities.reasoning,
    ...(capabilities.dimensions ? { dimensions: true } : {}),
    ...defined({
      tokenizer: model.tokenizer,
      deprecatedAt: model.deprecated_at,
      retiresAt: model.retires_at,
      replacement: model.replacement,
    }),
    serviceTiers: capabilities.service_tiers,
    available: model.available,
    pricing: readPricing(model),
    maxSize: model.max_size,
    ...(model.strategy === 'priority' ? {} : { strategy: model.strategy }),
    routes: routes.map(({ tiers, cost, context_length: contextLength, ...route }) => ({
      ...route,
      ...defined({ tiers, contextLength, cost: cost && toPricing(cost) }),
    })),
  };
}

function readPricing({ id, endpoints, pricing }: ParsedModel): PricingSettings {
  // A free model has price 0 for everything that its kind can be charged for, whether a price is configured or not.
  const free = Object.fromEntries(kindRules[findModelKind(endpoints)].needed[0].map(name => [name, 0n]));
  const none = { images: [], above: [] };
  return toPricing(id.endsWith(':free') ? { ...free, ...none } : (pricing ?? none));
}

function toPricing(prices: ParsedPricing): PricingSettings {
  return {
    ...defined({
      inputPicoUsd: prices.input,
      outputPicoUsd: prices.output,
      imageNanoUsd: prices.image,
      imageTokens: prices.image_tokens && toImageTokens(prices.image_tokens),
      searchNanoUsd: prices.search,
      batchPermille: prices.batch,
      tierPermille: prices.tiers,
      toolNanoUsd: prices.tools && defined(prices.tools),
      toolCalls: prices.tool_calls,
    }),
    ...toCaching(prices.caching),
    ...(prices.images.length === 0 ? {} : { images: prices.images.map(toImagePrice) }),
    above: prices.above.map(step => ({
      inputTokens: step.input_tokens,
      inputPicoUsd: step.input,
      outputPicoUsd: step.output,
      ...toCaching(step.caching),
    })),
  };
}

function toImageTokens(prices: NonNullable<ParsedPricing['image_tokens']>): ImageTokenPricingSettings {
  return {
    textInputPicoUsd: prices.text_input,
    imageInputPicoUsd: prices.image_input,
    ...defined({ cachedInputPicoUsd: prices.cached_input }),
    outputPicoUsd: prices.output,
  };
}

function toImagePrice({ image, ...dimensions }: ParsedPricing['images'][number]): ImagePriceSettings {
  return { ...defined(dimensions), imageNanoUsd: image };
}

function toCaching(caching: ParsedCaching | undefined): ReturnType<typeof cachingMember> {
  return cachingMember({
    readPicoUsd: caching?.read,
    write5mPicoUsd: caching?.write_5m,
    write30mPicoUsd: caching?.write_30m,
    write1hPicoUsd: caching?.write_1h,
    write12hPicoUsd: caching?.write_12h,
  });
}

/** The plans of docs/accounting.md "Subscriptions", with their free requests and discounts. */
const standardPlans: Config['plans'] = {
  core: {
    biweekly: { priceNanoUsd: 6_990_000_000n, tokens: 15_000_000 },
    monthly: { priceNanoUsd: 15_990_000_000n, tokens: 35_000_000 },
    freeDailyRequests: 50,
    discountPermille: 0,
    models: null,
  },
  core_pro: {
    biweekly: { priceNanoUsd: 12_990_000_000n, tokens: 28_000_000 },
    monthly: { priceNanoUsd: 34_990_000_000n, tokens: 80_000_000 },
    freeDailyRequests: 150,
    discountPermille: 50,
    models: null,
  },
};

function toPlan(plan: ParsedPlan | undefined, standard: PlanSettings): PlanSettings {
  const period = (own: ParsedPlan['monthly'], usual: PlanSettings['monthly']): PlanSettings['monthly'] =>
    own === undefined ? usual : { priceNanoUsd: own.price, tokens: own.tokens };
  return {
    biweekly: period(plan?.biweekly, standard.biweekly),
    monthly: period(plan?.monthly, standard.monthly),
    freeDailyRequests: plan?.free_daily_requests ?? standard.freeDailyRequests,
    discountPermille: plan?.discount ?? standard.discountPermille,
    models: plan?.models === undefined ? standard.models : plan.models,
  };
}

/** Freezes plain values recursively. */
function deepFreeze<Value>(value: Value): Value {
  if (typeof value !== 'object' || value === null || value instanceof Secret || Object.isFrozen(value)) return value;
  for (const member of value instanceof Map ? value.values() : Object.values(value)) deepFreeze(member);
  return Object.freeze(value);
}
