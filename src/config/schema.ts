import * as z from 'zod';
import { errorTable, isErrorCode } from '../errors/error-table.ts';
import { documented } from '../lib/schema-notes.ts';
import { cloudShape } from './clouds.ts';
import { defaultPaths, endpointPaths, protocolNames } from './model-kind.ts';
import {
  address,
  dollars,
  duration,
  keepingTime,
  factor,
  flag,
  fraction,
  leaf,
  link,
  listOf,
  mapping,
  matching,
  moment,
  network,
  named,
  numberBetween,
  oneOf,
  oneOrMore,
  origin,
  secret,
  size,
  text,
  tokenPrice,
  whole,
} from './scalars.ts';

/**
 * The schema of the file, key by key, in the order of docs/configuration.md "Options". Rules between several parts (for example, that the
 * provider of a route exists) are in `consistency.ts`.
 */

const tokens = whole(1, 4_294_967_295);
const modelId = matching(
  /^[A-Za-z0-9][\w.:@+-]*(\/[\w.:@+-]+)*$/,
  'an id of letters, digits and . _ - : @ + with / between its parts, such as acme/large',
);
const providerName = matching(/^[A-Za-z0-9][\w.-]*$/, 'a name of letters, digits and . _ -');
const headerName = matching(
  /^(?!(?:host|connection|content-length|content-type|transfer-encoding|accept-encoding)$)[!#$%&'*+.^_`|~0-9a-z-]+$/i,
  'the name of an HTTP header that the gateway does not set itself',
);

const timeoutsShape = {
  connect: duration(1).optional(),
  first_event: duration(1).optional(),
  idle: duration(1).optional(),
  total: duration(1).optional(),
};

const provider = mapping({
  protocol: oneOf(...protocolNames).optional(),
  protocols: mapping({
    responses: address.optional(),
    chat: address.optional(),
    messages: address.optional(),
    gemini: address.optional(),
  }).optional(),
  base_url: address.optional(),
  api_key: oneOrMore(secret).optional(),
  api_key_file: text.optional(),
  headers: named(headerName, secret).default({}),
  timeouts: mapping(timeoutsShape).optional(),
  passthrough: oneOf('all', 'unpriced', 'known').default('unpriced'),
  concurrency: whole(1, 100_000).optional(),
  queue: whole(0, 1_000_000).default(1000),
  queue_timeout: duration(1).default(30_000),
  token_ids: flag.optional(),
  ...cloudShape,
});

const caching = mapping({
  read: tokenPrice.optional(),
  write_5m: tokenPrice.optional(),
  write_30m: tokenPrice.optional(),
  write_1h: tokenPrice.optional(),
  write_12h: tokenPrice.optional(),
});

/** The name of a tier: not one of the words for the standard tier, and not another name of priority. */
const tierName = matching(
  /^(?!(?:auto|default|standard|standard_only|on_demand|provisioned|fast|unspecified)$)[a-z0-9][a-z0-9_-]{0,31}$/,
  'a tier of up to 32 of a-z, 0-9, "_" and "-", other than the names of the standard tier and fast',
);

const pricing = mapping({
  batch: fraction.optional(),
  tiers: named(tierName, factor).optional(),
  input: tokenPrice.optional(),
  output: tokenPrice.optional(),
  image: dollars.optional(),
  image_tokens: mapping({
    text_input: tokenPrice,
    image_input: tokenPrice,
    cached_input: tokenPrice.optional(),
    output: tokenPrice,
  }).optional(),
  search: dollars.optional(),
  tools: mapping({
    web_search: dollars.optional(),
    file_search: dollars.optional(),
    code_interpreter: dollars.optional(),
    code_execution: dollars.optional(),
    image_generation: dollars.optional(),
    google_maps: dollars.optional(),
  }).optional(),
  tool_calls: whole(1, 1_000).optional(),
  images: listOf(
    mapping({
      size: matching(/^[1-9]\d{0,4}x[1-9]\d{0,4}$/, 'WIDTHxHEIGHT in pixels, such as 2048x2048').optional(),
      quality: text.optional(),
      image: dollars,
    }),
  ).default([]),
  caching: caching.optional(),
  above: listOf(
    mapping({ input_tokens: tokens, input: tokenPrice, output: tokenPrice, caching: caching.optional() }),
  ).default([]),
});

const capabilities = mapping({
  vision: flag.default(false),
  function_call: flag.default(false),
  reasoning: flag.default(false),
  dimensions: flag.default(false),
  service_tiers: listOf(oneOf('flex', 'priority')).default([]),
});

const route = mapping({
  provider: text,
  model: text,
  priority: whole(0, 1_000_000).default(1),
  weight: numberBetween(0, 1_000_000).default(1),
  tiers: listOf(tierName).optional(),
  context_length: tokens.optional(),
  cost: pricing.optional(),
});

const model = mapping({
  id: modelId,
  name: text.optional(),
  description: text.default(''),
  owned_by: text.optional(),
  created: moment.default(0),
  context_length: tokens.optional(),
  max_output_tokens: tokens.optional(),
  endpoints: listOf(oneOf(...endpointPaths))
    .min(1, { error: 'must list at least one path' })
    .default([...defaultPaths]),
  capabilities: capabilities.prefault({}),
  available: flag.default(true),
  pricing: pricing.optional(),
  max_size: matching(/^[1-9]\d{1,4}x[1-9]\d{1,4}$/, 'WIDTHxHEIGHT in pixels, such as 2048x2048').default(''),
  strategy: oneOf('priority', 'cheapest', 'fastest').default('priority'),
  tokenizer: oneOf('cl100k_base', 'o200k_base').optional(),
  deprecated_at: moment.optional(),
  retires_at: moment.optional(),
  replacement: text.optional(),
  routes: listOf(route).default([]),
});

const period = mapping({ price: dollars, tokens: whole(1, Number.MAX_SAFE_INTEGER) }).optional();

const planModels = documented(
  z
    .unknown()
    .transform(value => (value === 'all' ? null : value))
    .pipe(z.array(text, { error: 'must be all, or a list of model ids' }).nullable()),
  { json: { anyOf: [{ const: 'all' }, { type: 'array', items: { type: 'string' } }] } },
);
const plan = mapping({
  biweekly: period,
  monthly: period,
  free_daily_requests: whole(0, 1_000_000).optional(),
  discount: fraction.optional(),
  models: planModels.optional(),
}).optional();

const errorCode = leaf<string>(
  'an error code of docs/errors.md',
  value => (typeof value === 'string' && isErrorCode(value) ? value : undefined),
  { enum: Object.keys(errorTable) },
);

const tlsShape = { cert: text, key: text };

const serviceToken = mapping({
  name: matching(/^[\w.-]{1,64}$/, 'a name of letters, digits and . _ -'),
  token: oneOrMore(secret),
  scopes: listOf(oneOf('operator', 'admin:read', 'admin:write', 'bodies:read', 'metering', 'generate', 'edge')).min(1, {
    error: 'must list at least one scope',
  }),
});

const rpc = mapping({
  tls: mapping({ ...tlsShape, client_ca: text.optional() }).optional(),
  admin: oneOf('everywhere', 'socket').default('everywhere'),
  tokens: listOf(serviceToken).default([]),
  control_bytes: size(1024, 1024 ** 3).default(1024 ** 2),
  message_elements: whole(100, 100_000_000).default(100_000),
  open_bytes: size(64, 1024 ** 2).default(4096),
  open_calls: whole(1, 100_000).default(256),
  open_calls_per_address: whole(1, 100_000).default(32),
  open_call_time: duration(1000).default(600_000),
}).prefault({});

const identityProvider = mapping({
  issuer: address,
  client_id: text,
  client_secret: secret,
  scopes: listOf(text).default(['openid', 'email', 'profile']),
  people: listOf(
    mapping({
      claim: text,
      value: text,
      role: oneOf('operator', 'owner', 'member', 'viewer'),
      account: whole(1, Number.MAX_SAFE_INTEGER).optional(),
    }),
  ).default([]),
});

/** The schema of the whole file. Its output still has the names of the file; `config.ts` converts it to a `Config`. */
export const fileSchema = mapping({
  public_url: address.optional(),
  shutdown_grace: duration(0).default(30_000),
  keep_alive: duration(10).default(15_000),
  cors_origins: listOf(origin).default([]),
  trusted_proxies: listOf(network).default([]),
  metrics: oneOf('internal', 'public').default('internal'),
  log_level: oneOf('error', 'warn', 'info', 'debug').default('info'),
  strict: flag.default(false),
  expose_route: flag.default(false),
  daily_limit_unit: oneOf('dollars', 'requests').default('dollars'),
  timeouts: mapping(timeoutsShape).optional(),
  retries: whole(0, 100).default(2),
  tls: mapping(tlsShape).optional(),
  rpc,
  identity_provider: identityProvider.optional(),
  limits: mapping({
    body_bytes: size(1024, 1024 ** 3).default(64 * 1024 ** 2),
    other_body_bytes: size(1024, 1024 ** 3).default(1024 ** 2),
    body_depth: whole(8, 512).default(512),
    body_values: whole(1000, 10_000_000).default(100_000),
    list_entries: whole(100, 1_000_000).default(10_000),
    body_memory: size(1024 ** 2, 1024 ** 4).default(256 * 1024 ** 2),
    account_body_memory: size(1024 ** 2, 1024 ** 4).default(128 * 1024 ** 2),
    memory_wait: duration(100).default(10_000),
    parse_memory: size(64 * 1024 ** 2, 16 * 1024 ** 3).default(512 * 1024 ** 2),
    parse_time: duration(100).default(10_000),
    stall_timeout: duration(1000).default(60_000),
    unsent_memory: size(1024 ** 2, 1024 ** 4).default(256 * 1024 ** 2),
    session_memory: size(1024 ** 2, 1024 ** 4).default(256 * 1024 ** 2),
    account_session_memory: size(1024 ** 2, 1024 ** 4).default(64 * 1024 ** 2),
    address_requests: whole(1, 1_000_000).default(256),
    running_choices: whole(128, 10_000_000).default(20_000),
    account_running_choices: whole(128, 10_000_000).default(10_000),
    answer_bytes: size(1024 ** 2, 1024 ** 3).default(128 * 1024 ** 2),
    whole_answer_bytes: size(1024 ** 2, 1024 ** 3).default(64 * 1024 ** 2),
    upstream_event_bytes: size(1024, 1024 ** 3).default(64 * 1024 ** 2),
    image_file_bytes: size(1024 ** 2, 1024 ** 5).default(10 * 1024 ** 3),
    image_tasks: whole(1, 1_000).default(8),
    image_task_queue: whole(0, 1_000_000).default(1_000),
  }).prefault({}),
  overload: mapping({
    loop_lag: duration(1).default(300),
    heap: fraction.default(850),
    slice: duration(1).default(2),
    queue: whole(1, 1_000_000).default(1_000),
  }).prefault({}),
  ledger: mapping({
    settle_timeout: duration(10).default(10_000),
    write_off_limit: dollars.default(10_000_000_000n),
  }).prefault({}),
  retention: mapping({
    // At least 62 days, because limits by month are counted from the records of the month.
    activity: keepingTime(62).default(400 * 86_400_000),
    audit: keepingTime(1).default(7 * 365 * 86_400_000),
  }).prefault({}),
  webhooks: mapping({
    allow_private: flag.default(false),
  }).prefault({}),
  capacity: mapping({
    wait: duration(0).default(30_000),
  }).prefault({}),
  batches: mapping({
    concurrency: whole(1, 1_000).default(8),
    file_bytes: size(1024, 1024 ** 3).default(200_000_000),
    disk_bytes: size(1024 ** 2, 1024 ** 5).default(20 * 1024 ** 3),
  }).prefault({}),
  content: mapping({
    max_bytes: size(1024 ** 2, 1024 ** 5).default(10 * 1024 ** 3),
    replay_bytes: size(1024 ** 2, 1024 ** 5).default(2 * 1024 ** 3),
    response_lifetime: duration(1000, 3650).default(30 * 24 * 3_600_000),
    bodies: oneOf('off', 'errors', 'all').default('off'),
    body_bytes: size(1024, 64 * 1024 ** 2).default(256 * 1024),
    body_lifetime: duration(1000, 3650).default(7 * 24 * 3_600_000),
  }).prefault({}),
  texts: mapping({
    docs: link.optional(),
    support: link.optional(),
    community: named(text, link).optional(),
    tips: named(errorCode, text).default({}),
  }).prefault({}),
  simulator: mapping({
    enabled: flag.default(true),
    tokens_per_second: numberBetween(0, 1_000_000).default(200),
    steering: flag.default(true),
  }).prefault({}),
  providers: named(providerName, provider).default({}),
  models: listOf(model).default([]),
  discovered: listOf(mapping({ models: oneOrMore(text), pricing })).default([]),
  aliases: named(modelId, text).default({}),
  plans: mapping({ core: plan, core_pro: plan }).optional(),
});

/** A file that fits the schema. */
export type ParsedFile = z.output<typeof fileSchema>;
export type ParsedProvider = ParsedFile['providers'][string];
export type ParsedModel = ParsedFile['models'][number];
export type ParsedRoute = ParsedModel['routes'][number];
export type ParsedPricing = NonNullable<ParsedModel['pricing']>;
export type ParsedTimeouts = NonNullable<ParsedFile['timeouts']>;
export type ParsedCaching = NonNullable<ParsedPricing['caching']>;
export type ParsedPlan = NonNullable<NonNullable<ParsedFile['plans']>['core']>;
