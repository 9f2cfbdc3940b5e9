import { decimalText, dollarsText } from '../lib/dollars.ts';
import { defined } from '../lib/defined.ts';
import { toCloudKeys } from './cloud-keys.ts';
import type { ParsedFile, ParsedModel, ParsedPricing, ParsedProvider } from './schema.ts';
import type {
  CachePricingSettings,
  Config,
  IdentityProviderSettings,
  Limits,
  ModelSettings,
  PlanSettings,
  PricingSettings,
  ProviderSettings,
  RpcSettings,
  Timeouts,
  TlsSettings,
} from './settings.ts';

/**
 * A configuration in the form of a configuration file: with its names and units, and with all defaults. If it is read as a file, it gives the same
 * configuration, except for `preset`, which marks a provider that environment variables have added.
 */
export type FileSettings = Readonly<Record<string, unknown>>;

/** A part of the file with all keys of its schema. If a key is missing here, it does not compile. */
type Part<Parsed> = { readonly [Key in keyof Required<Parsed>]: unknown };

/** Returns a configuration in the form of a file. Secrets stay `Secret`s, whose JSON is `***`. */
export function toFileSettings(config: Config): FileSettings {
  const { plans, providers, models } = config;
  const settings = {
    public_url: config.publicUrl,
    shutdown_grace: durationText(config.shutdownGraceMs),
    keep_alive: durationText(config.keepAliveMs),
    cors_origins: config.corsOrigins,
    trusted_proxies: config.trustedProxies,
    metrics: config.metrics,
    log_level: config.logLevel,
    strict: config.strict,
    expose_route: config.exposeRoute,
    daily_limit_unit: config.dailyLimitUnit,
    timeouts: toTimeouts(config.timeouts),
    retries: config.retries,
    capacity: { wait: durationText(config.capacity.waitMs) },
    tls: toTls(config.tls),
    rpc: toRpc(config.rpc),
    identity_provider: toIdentityProvider(config.identityProvider),
    limits: toLimits(config.limits),
    ...toServices(config),
    texts: config.texts,
    providers: Object.fromEntries(providers.map(provider => [provider.name, toProvider(provider)])),
    models: models.map(toModel),
    discovered: config.discovered.map(({ models: ids, pricing }) => ({ models: ids, pricing: toPricing(pricing) })),
    aliases: Object.fromEntries(config.aliases),
    plans: { core: toPlan(plans.core), core_pro: toPlan(plans.core_pro) },
  } satisfies Part<ParsedFile>;
  return defined(settings);
}

/** Returns the sections from `overload` to `simulator`. */
function toServices({ overload, ledger, retention, webhooks, batches, content, simulator }: Config) {
  return {
    overload: {
      loop_lag: durationText(overload.loopLagMs),
      heap: overload.heapPermille / 1000,
      slice: durationText(overload.sliceMs),
      queue: overload.queue,
    } satisfies Part<ParsedFile['overload']>,
    ledger: {
      settle_timeout: durationText(ledger.settleTimeoutMs),
      write_off_limit: toDollars(ledger.writeOffMaxNanoUsd),
    } satisfies Part<ParsedFile['ledger']>,
    retention: {
      activity: daysText(retention.activityMs),
      audit: daysText(retention.auditMs),
    } satisfies Part<ParsedFile['retention']>,
    webhooks: { allow_private: webhooks.allowPrivate } satisfies Part<ParsedFile['webhooks']>,
    batches: {
      concurrency: batches.concurrency,
      file_bytes: sizeText(batches.fileBytes),
      disk_bytes: sizeText(batches.diskBytes),
    } satisfies Part<ParsedFile['batches']>,
    content: {
      max_bytes: sizeText(content.bytesMax),
      replay_bytes: sizeText(content.replayBytesMax),
      response_lifetime: durationText(content.responseLifetimeMs),
      bodies: content.bodies,
      body_bytes: sizeText(content.bodyBytesMax),
      body_lifetime: durationText(content.bodyLifetimeMs),
    } satisfies Part<ParsedFile['content']>,
    simulator: {
      enabled: simulator.enabled,
      tokens_per_second: simulator.tokensPerSecond,
      steering: simulator.steering,
    } satisfies Part<ParsedFile['simulator']>,
  };
}

function toLimits(limits: Limits): Part<ParsedFile['limits']> {
  return {
    body_bytes: sizeText(limits.bodyBytes),
    other_body_bytes: sizeText(limits.otherBodyBytes),
    body_depth: limits.bodyDepth,
    body_values: limits.bodyValues,
    list_entries: limits.listEntries,
    body_memory: sizeText(limits.bodyMemoryBytes),
    account_body_memory: sizeText(limits.accountBodyMemoryBytes),
    memory_wait: durationText(limits.memoryWaitMs),
    parse_memory: sizeText(limits.parseMemoryBytes),
    parse_time: durationText(limits.parseMs),
    stall_timeout: durationText(limits.stallMs),
    unsent_memory: sizeText(limits.unsentMemoryBytes),
    session_memory: sizeText(limits.sessionMemoryBytes),
    account_session_memory: sizeText(limits.accountSessionMemoryBytes),
    address_requests: limits.addressRequests,
    running_choices: limits.runningChoices,
    account_running_choices: limits.accountRunningChoices,
    answer_bytes: sizeText(limits.answerBytes),
    whole_answer_bytes: sizeText(limits.wholeAnswerBytes),
    upstream_event_bytes: sizeText(limits.upstreamEventBytes),
    image_file_bytes: sizeText(limits.imageFileBytes),
    image_tasks: limits.imageTasks,
    image_task_queue: limits.imageTaskQueue,
  };
}

function toTimeouts({ connectMs, firstEventMs, idleMs, totalMs }: Timeouts): Part<ParsedFile['timeouts']> {
  return {
    connect: durationText(connectMs),
    first_event: durationText(firstEventMs),
    idle: durationText(idleMs),
    total: durationText(totalMs),
  };
}

function toTls(tls: TlsSettings | undefined): object | undefined {
  return tls && defined({ cert: tls.certPath, key: tls.keyPath, client_ca: tls.clientCaPath });
}

function toRpc({ tls, admin, tokens, controlBytes, messageElements, open }: RpcSettings): object {
  return defined({
    tls: toTls(tls),
    admin,
    tokens: tokens.map(({ name, tokens: values, scopes }) => ({ name, token: values, scopes })),
    control_bytes: sizeText(controlBytes),
    message_elements: messageElements,
    open_bytes: sizeText(open.bytesMax),
    open_calls: open.callsMax,
    open_calls_per_address: open.perAddressMax,
    open_call_time: durationText(open.durationMs),
  } satisfies Part<ParsedFile['rpc']>);
}

function toIdentityProvider(provider: IdentityProviderSettings | undefined): object | undefined {
  return (
    provider &&
    ({
      issuer: provider.issuer,
      client_id: provider.clientId,
      client_secret: provider.clientSecret,
      scopes: provider.scopes,
      people: provider.people.map(({ claim, value, role, accountId }) => ({
        claim,
        value,
        role,
        ...(accountId !== null && { account: accountId }),
      })),
    } satisfies Part<NonNullable<ParsedFile['identity_provider']>>)
  );
}

function toProvider(provider: ProviderSettings): object {
  const { concurrency } = provider;
  return defined({
    preset: provider.preset,
    ...toCloudKeys(provider.cloud),
    // A cloud that speaks several protocols was not told which.
    protocol: provider.cloud !== undefined && provider.others !== undefined ? undefined : provider.protocol,
    base_url: provider.baseUrl,
    protocols:
      provider.cloud !== undefined || provider.others === undefined
        ? undefined
        : Object.fromEntries([provider, ...provider.others].map(({ protocol, baseUrl }) => [protocol, baseUrl])),
    api_key: provider.apiKeys.length === 0 ? undefined : provider.apiKeys,
    headers: provider.headers,
    timeouts: toTimeouts(provider.timeouts),
    passthrough: provider.passthrough,
    concurrency: concurrency?.slots,
    queue: concurrency?.waitersMax,
    queue_timeout: concurrency && durationText(concurrency.waitMs),
    token_ids: provider.tokenIds,
  } satisfies Part<Omit<ParsedProvider, 'api_key_file'>> & { readonly preset: unknown });
}

function toModel(model: ModelSettings): object {
  return defined({
    id: model.id,
    name: model.name,
    description: model.description === '' ? undefined : model.description,
    owned_by: model.ownedBy,
    created: model.createdAt,
    context_length: model.contextLength,
    max_output_tokens: model.maxOutputTokens,
    endpoints: model.endpoints,
    capabilities: {
      vision: model.vision,
      function_call: model.functionCall,
      reasoning: model.reasoning,
      dimensions: model.dimensions ?? false,
      service_tiers: model.serviceTiers,
    } satisfies Part<ParsedModel['capabilities']>,
    available: model.available,
    pricing: toPricing(model.pricing),
    max_size: model.maxSize === '' ? undefined : model.maxSize,
    strategy: model.strategy ?? 'priority',
    tokenizer: model.tokenizer,
    deprecated_at: model.deprecatedAt,
    retires_at: model.retiresAt,
    replacement: model.replacement,
    routes: model.routes.map(({ cost, contextLength, ...route }) => ({
      ...route,
      ...defined({ context_length: contextLength, cost: cost && toPricing(cost) }),
    })),
  } satisfies Part<ParsedModel>);
}

function toPricing(prices: PricingSettings): object {
  return defined({
    batch: prices.batchPermille === undefined ? undefined : prices.batchPermille / 1000,
    tiers:
      prices.tierPermille &&
      Object.fromEntries(Object.entries(prices.tierPermille).map(([tier, permille]) => [tier, permille / 1000])),
    input: toTokenPrice(prices.inputPicoUsd),
    output: toTokenPrice(prices.outputPicoUsd),
    image: toDollars(prices.imageNanoUsd),
    image_tokens:
      prices.imageTokens &&
      defined({
        text_input: toTokenPrice(prices.imageTokens.textInputPicoUsd),
        image_input: toTokenPrice(prices.imageTokens.imageInputPicoUsd),
        cached_input: toTokenPrice(prices.imageTokens.cachedInputPicoUsd),
        output: toTokenPrice(prices.imageTokens.outputPicoUsd),
      }),
    search: toDollars(prices.searchNanoUsd),
    tools:
      prices.toolNanoUsd &&
      Object.fromEntries(Object.entries(prices.toolNanoUsd).map(([tool, price]) => [tool, toDollars(price)])),
    tool_calls: prices.toolCalls,
    images: prices.images?.map(({ imageNanoUsd, ...dimensions }) => ({
      ...dimensions,
      image: toDollars(imageNanoUsd),
    })),
    caching: toCaching(prices.caching),
    above:
      prices.above.length === 0
        ? undefined
        : prices.above.map(step =>
            defined({
              input_tokens: step.inputTokens,
              input: toTokenPrice(step.inputPicoUsd),
              output: toTokenPrice(step.outputPicoUsd),
              caching: toCaching(step.caching),
            }),
          ),
  } satisfies Part<ParsedPricing>);
}

function toCaching(caching: CachePricingSettings | undefined): object | undefined {
  return (
    caching &&
    defined({
      read: toTokenPrice(caching.readPicoUsd),
      write_5m: toTokenPrice(caching.write5mPicoUsd),
      write_30m: toTokenPrice(caching.write30mPicoUsd),
      write_1h: toTokenPrice(caching.write1hPicoUsd),
      write_12h: toTokenPrice(caching.write12hPicoUsd),
    })
  );
}

function toPlan({ biweekly, monthly, freeDailyRequests, discountPermille, models }: PlanSettings): object {
  return {
    biweekly: { price: toDollars(biweekly.priceNanoUsd), tokens: biweekly.tokens },
    monthly: { price: toDollars(monthly.priceNanoUsd), tokens: monthly.tokens },
    free_daily_requests: freeDailyRequests,
    discount: discountPermille / 1000,
    models: models ?? 'all',
  };
}

/** Returns nano-dollars as dollars: a number, or a string if a double would lose digits. */
function toDollars(nanoUsd: bigint | undefined): number | string | undefined {
  return nanoUsd === undefined ? undefined : toExactNumber(dollarsText(nanoUsd));
}

/** Returns a token price in dollars per 1 million tokens, as a number or a string like `toDollars`. */
function toTokenPrice(picoUsd: bigint | undefined): number | string | undefined {
  return picoUsd === undefined ? undefined : toExactNumber(decimalText(picoUsd, 6));
}

/** Converts a decimal text to a number, or returns it unchanged if the number would be written with other digits. */
function toExactNumber(text: string): number | string {
  return String(Number(text)) === text ? Number(text) : text;
}

const durationUnits: readonly (readonly [string, number])[] = [
  ['d', 86_400_000],
  ['h', 3_600_000],
  ['m', 60_000],
  ['s', 1000],
  ['ms', 1],
];

const sizeUnits: readonly (readonly [string, number])[] = [
  ['GiB', 1024 ** 3],
  ['GB', 1000 ** 3],
  ['MiB', 1024 ** 2],
  ['MB', 1000 ** 2],
  ['KiB', 1024],
  ['KB', 1000],
  ['B', 1],
];

/** Returns a time span in the largest unit that divides it: `30s`, `1h`. */
function durationText(ms: number): string {
  return unitText(ms, durationUnits, 's');
}

/** Returns a retention time in days; the file also accepts years. */
function daysText(ms: number): string {
  return `${ms / 86_400_000}d`;
}

/** Returns a size in the largest unit that divides it: `64MiB`, `200MB`. */
function sizeText(bytes: number): string {
  return unitText(bytes, sizeUnits, 'B');
}

function unitText(amount: number, units: typeof sizeUnits, zero: string): string {
  if (amount === 0) return `0${zero}`;
  const [name, size] = units.find(([, each]) => amount % each === 0) ?? [zero, 1];
  return `${amount / size}${name}`;
}
