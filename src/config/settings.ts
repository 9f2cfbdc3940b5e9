import type { ErrorCode } from '../errors/error-table.ts';
import type { SecretSource } from './secret-sources.ts';
import type { Secret } from './secrets.ts';

/**
 * The configuration, checked and with every default filled in. Plain frozen values: `main.ts` hands them down.
 * Times in ms, sizes in bytes, prices as integers of the unit in the name. Source: docs/configuration.md "Options".
 */
export interface Config {
  /** The files that secrets were read from; absent: none was. */
  readonly secretSources?: readonly SecretSource[];
  /** The path of the file as given; absent if there is none. */
  readonly file?: string;
  /** Without a slash at its end; absent: the address of the public listener. */
  readonly publicUrl?: string;
  readonly shutdownGraceMs: number;
  readonly keepAliveMs: number;
  /** Origins that browsers may call from, or `*`; empty: none. */
  readonly corsOrigins: readonly string[];
  /** `public`: `GET /metrics` on the public listener too. */
  readonly metrics: 'internal' | 'public';
  readonly logLevel: 'error' | 'warn' | 'info' | 'debug';
  /** A translation warning is refused. */
  readonly strict: boolean;
  /** Answers name their route in `x-tollgate-route`. */
  readonly exposeRoute: boolean;
  readonly dailyLimitUnit: 'dollars' | 'requests';
  readonly timeouts: Timeouts;
  /** Further attempts at a route before the next route. */
  readonly retries: number;
  /** For the public listener; absent: cleartext. */
  readonly tls?: TlsSettings;
  readonly rpc: RpcSettings;
  /** Absent: people sign in with keys and links alone. */
  readonly identityProvider?: IdentityProviderSettings;
  readonly limits: Limits;
  readonly overload: OverloadSettings;
  readonly ledger: LedgerSettings;
  readonly retention: RetentionSettings;
  readonly webhooks: WebhookSettings;
  readonly batches: BatchSettings;
  readonly content: ContentSettings;
  readonly texts: Texts;
  readonly simulator: SimulatorSettings;
  readonly providers: readonly ProviderSettings[];
  readonly models: readonly ModelSettings[];
  /** Costs of models that local servers report; the first match applies. */
  readonly discovered: readonly DiscoveredPricing[];
  /** Listed ids by alias. */
  readonly aliases: ReadonlyMap<string, string>;
  readonly plans: Readonly<Record<PlanName, PlanSettings>>;
}

/** The deadlines of an upstream. */
export interface Timeouts {
  readonly connectMs: number;
  readonly firstEventMs: number;
  readonly idleMs: number;
  readonly totalMs: number;
}

/** Files in PEM. They are read again when they change. */
export interface TlsSettings {
  /** The certificate and what leads from it to its authority. */
  readonly certPath: string;
  readonly keyPath: string;
  /** Certificate authorities of callers: callers without a certificate of one of them are refused. Absent: callers need none. */
  readonly clientCaPath?: string;
}

/** A credential of a service of the operator's own. */
export interface ServiceTokenSettings {
  readonly name: string;
  /** Several while one replaces another. */
  readonly tokens: readonly Secret[];
  readonly scopes: readonly ('operator' | 'admin:read' | 'admin:write' | 'metering' | 'generate' | 'edge')[];
}

/** The provider of OpenID Connect that people sign in with. */
export interface IdentityProviderSettings {
  readonly issuer: string;
  readonly clientId: string;
  readonly clientSecret: Secret;
  readonly scopes: readonly string[];
  /** Roles by rule: the first rule that matches a person applies; a person whom none matches can't sign in. */
  readonly people: readonly {
    readonly claim: string;
    /** The claim's value, or one of its values if it is a list; `*` matches any text. */
    readonly value: string;
    readonly role: 'operator' | 'owner' | 'member' | 'viewer';
    /** null: the operator's. */
    readonly accountId: number | null;
  }[];
}

/** The internal listener. */
export interface RpcSettings {
  /** Absent: cleartext. */
  readonly tls?: TlsSettings;
  /** `socket`: AdminService is only on the Unix socket. */
  readonly admin: 'everywhere' | 'socket';
  readonly tokens: readonly ServiceTokenSettings[];
  /** A message of a service that takes neither prompts nor images. */
  readonly controlBytes: number;
  /** Fields and list entries of a message. */
  readonly messageElements: number;
  /** Calls that need no credential. */
  readonly open: {
    readonly bytesMax: number;
    readonly callsMax: number;
    readonly perAddressMax: number;
    readonly durationMs: number;
  };
}

/** The maximum sizes of messages from callers and upstreams. */
export interface Limits {
  /** The body of a request that generates, draws or counts tokens, and any RPC message. */
  readonly bodyBytes: number;
  /** The body of any other request. */
  readonly otherBodyBytes: number;
  /** Levels of objects and arrays of a JSON body. */
  readonly bodyDepth: number;
  /** Values of a JSON body in all. */
  readonly bodyValues: number;
  /** Entries of one array, or members of one object, of a JSON body. */
  readonly listEntries: number;
  /** Bytes of all bodies over 1 MiB that are being read or answered. */
  readonly bodyMemoryBytes: number;
  /** The same, for one account. */
  readonly accountBodyMemoryBytes: number;
  /** Memory that parsing one large body may take. */
  readonly parseMemoryBytes: number;
  /** Time that parsing one large body may take. */
  readonly parseMs: number;
  /** A connection that accepts no bytes for this long is cut. */
  readonly stallMs: number;
  /** Bytes that wait for clients to read them. */
  readonly unsentMemoryBytes: number;
  /** Responses that live as long as their WebSocket. */
  readonly sessionMemoryBytes: number;
  /** The same, for one account. */
  readonly accountSessionMemoryBytes: number;
  /** The most requests of one address that have no valid key and are still sending their bodies. */
  readonly addressRequests: number;
  /** Choices of all requests that generate now. */
  readonly runningChoices: number;
  /** The same, for one account. */
  readonly accountRunningChoices: number;
  /** One choice of an answer, in memory. */
  readonly answerBytes: number;
  /** An answer that is not streamed, all choices together, in memory. */
  readonly wholeAnswerBytes: number;
  /** One event of an upstream's stream, or its whole answer if it does not stream. */
  readonly upstreamEventBytes: number;
  /** For all images that are stored for delivery by address. */
  readonly imageFileBytes: number;
  /** Image tasks that run at once. */
  readonly imageTasks: number;
  /** Image tasks that may wait. */
  readonly imageTaskQueue: number;
}

/** When requests are refused because of overload, and in which order requests run. */
export interface OverloadSettings {
  /** The level begins when the event loop is this late. */
  readonly loopLagMs: number;
  /** The level begins when this share of the heap is in use, in thousandths. */
  readonly heapPermille: number;
  /** Work that is begun in one turn of the event loop. */
  readonly sliceMs: number;
  /** Requests of one account that may wait to begin. */
  readonly queue: number;
}

/** How the ledger handles failing storage and unpaid costs. */
export interface LedgerSettings {
  /** How long a finished answer waits to be charged before it fails. */
  readonly settleTimeoutMs: number;
  /** An account is suspended if more than this of its requests is written off. 0: never. */
  readonly writeOffMaxNanoUsd: bigint;
}

/** Storage besides the ledger: stored responses, answers of idempotency keys, image tasks. */
export interface ContentSettings {
  /** For responses and image tasks together; finished ones are evicted, the oldest of the largest account first. */
  readonly bytesMax: number;
  /** For answers of idempotency keys, which are never evicted early; a quarter of it for one account. */
  readonly replayBytesMax: number;
  /** How long a response is stored. */
  readonly responseLifetimeMs: number;
  /** Which bodies are stored, unless the key has its own setting. */
  readonly bodies: 'off' | 'errors' | 'all';
  /** The most that is kept of each body. */
  readonly bodyBytesMax: number;
  readonly bodyLifetimeMs: number;
}

/** The content of errors besides their message. Absent links are null in answers; `{code}` in a link is replaced with the error's code. */
export interface Texts {
  readonly docs?: string;
  readonly support?: string;
  readonly community?: Readonly<Record<string, string>>;
  /** Replaces the tips of a code. */
  readonly tips: Readonly<Partial<Record<ErrorCode, string>>>;
}

/** Retention times of history. */
export interface RetentionSettings {
  /** Settled requests. */
  readonly activityMs: number;
  readonly auditMs: number;
}

/** The operator's webhooks. */
export interface WebhookSettings {
  /** Addresses of one's own network, and plain http. */
  readonly allowPrivate: boolean;
}

/** The built-in models. */
export interface SimulatorSettings {
  readonly enabled: boolean;
  /** 0: no pace. */
  readonly tokensPerSecond: number;
  /** True if `!sim` lines steer it. */
  readonly steering: boolean;
}

/** A wire protocol of an upstream. */
export type ProtocolName = 'chat' | 'responses' | 'messages' | 'gemini' | 'images';

/** A deviation of a server from its protocol. */
export type UpstreamQuirk =
  /** Chat: the output limit is called `max_tokens` only. */
  | 'max_tokens'
  /** Chat: `stream_options` is refused; usage comes without it. */
  | 'no_stream_options'
  /** One answer to a request. */
  | 'one_answer'
  /** It counts tokens while it streams if `timings_per_token` is set. */
  | 'running_timings'
  /** It counts tokens while it streams if `stream_options.continuous_usage_stats` is set. */
  | 'running_usage'
  /** It counts a conversation at `/apply-template` and `/tokenize`. */
  | 'template_count';

/** An upstream's address and credentials. */
export interface ProviderSettings {
  readonly name: string;
  /** The preset that the environment has switched on; absent: the file has it. */
  readonly preset?: string;
  /** Absent: it keeps to its protocol. */
  readonly quirks?: readonly UpstreamQuirk[];
  readonly protocol: ProtocolName;
  /** In the form that the protocol's official client takes, without a slash at its end. */
  readonly baseUrl: string;
  /** Used in rotation; empty: no credential is sent. */
  readonly apiKeys: readonly Secret[];
  /** Lower-case names; sent with every call. */
  readonly headers: Readonly<Record<string, Secret>>;
  /** The general ones if the provider has none of its own. */
  readonly timeouts: Timeouts;
  /** Which of the client's own fields it receives; absent: `unpriced`. */
  readonly passthrough?: 'all' | 'unpriced' | 'known';
  /** Calls at once; absent: no limit. */
  readonly concurrency?: ConcurrencySettings;
  /** Whether embeddings may be requested by token ids; absent: as usual for its protocol. */
  readonly tokenIds?: boolean;
}

/** How many calls a provider takes at once, and how many wait. */
export interface ConcurrencySettings {
  readonly slots: number;
  /** More are turned away. */
  readonly waitersMax: number;
  readonly waitMs: number;
}

/** A public path that a model can be used on. */
export type EndpointPath =
  | '/v1/chat/completions'
  | '/v1/responses'
  | '/v1/messages'
  | '/v1/images/generations'
  | '/v1/images/edits'
  | '/v1/embeddings'
  | '/v1/rerank'
  | '/v1/completions';

/** A model of the catalogue. */
export interface ModelSettings {
  readonly id: string;
  readonly name: string;
  /** May be empty. */
  readonly description: string;
  readonly ownedBy: string;
  /** Seconds since 1970 UTC; 0: unknown. */
  readonly createdAt: number;
  /** Absent: unknown. */
  readonly contextLength?: number;
  /** Absent: unknown. */
  readonly maxOutputTokens?: number;
  readonly endpoints: readonly EndpointPath[];
  readonly vision: boolean;
  readonly functionCall: boolean;
  readonly reasoning: boolean;
  /** The length of its vectors can be chosen. */
  readonly dimensions?: true;
  /** The vocabulary of its token ids; absent: unknown. */
  readonly tokenizer?: string;
  /** Besides the standard one. */
  readonly serviceTiers: readonly ('flex' | 'priority')[];
  /** False: listed, but never routed. */
  readonly available: boolean;
  readonly pricing: PricingSettings;
  /** "2048x2048"; '' if unknown. */
  readonly maxSize: string;
  /** How the first route of a request is chosen; absent: `priority`. */
  readonly strategy?: 'priority' | 'cheapest' | 'fastest';
  /** Empty only if `available` is false. */
  readonly routes: readonly RouteSettings[];
}

/** Prices: pico-dollars a token (dollars per 1 million tokens times 10^6), nano-dollars an image or a search. Absent: none. */
export interface PricingSettings {
  readonly inputPicoUsd?: bigint;
  readonly outputPicoUsd?: bigint;
  readonly imageNanoUsd?: bigint;
  /** Price of a search of up to 100 documents. */
  readonly searchNanoUsd?: bigint;
  /** Price of a call of a tool that the provider runs, by its name ("web_search"). Absent: none is offered. */
  readonly toolNanoUsd?: Readonly<Record<string, bigint>>;
  /** Calls of such tools that are held for if a request sets no maximum; absent: 10. */
  readonly toolCalls?: number;
  /** For images of other sizes and qualities: the first match applies. Absent: none. */
  readonly images?: readonly ImagePriceSettings[];
  readonly caching?: CachePricingSettings;
  /** The factor of batch items, in thousandths; absent: 500 of models with a flex tier, else 1000. */
  readonly batchPermille?: number;
  /** By rising threshold. */
  readonly above: readonly PricingAboveSettings[];
}

/** The prices of models that a local server reports. */
export interface DiscoveredPricing {
  /** Ids of models; `*` matches any text. */
  readonly models: readonly string[];
  readonly pricing: PricingSettings;
}

/** The price of an image; an absent size or quality means any. */
export interface ImagePriceSettings {
  readonly size?: string;
  readonly quality?: string;
  readonly imageNanoUsd: bigint;
}

/** Prices of cached input; absent: charged as uncached input. */
export interface CachePricingSettings {
  readonly readPicoUsd?: bigint;
  readonly write5mPicoUsd?: bigint;
  readonly write1hPicoUsd?: bigint;
}

/** The prices of a whole request with more input tokens than that. */
export interface PricingAboveSettings {
  readonly inputTokens: number;
  readonly inputPicoUsd: bigint;
  readonly outputPicoUsd: bigint;
  readonly caching?: CachePricingSettings;
}

/** One route to a model. */
export interface RouteSettings {
  /** The name of a provider. */
  readonly provider: string;
  /** The provider's own name of the model. */
  readonly model: string;
  /** Lower first. */
  readonly priority: number;
  /** Share among routes of one priority; 0: only when the others can't. */
  readonly weight: number;
  /** Tiers besides the standard one that it can carry; absent: all of the model's. */
  readonly tiers?: readonly ('flex' | 'priority')[];
  /** The provider's charge to the operator; absent: unknown. */
  readonly cost?: PricingSettings;
}

/** How batches run, and the space for their files. */
export interface BatchSettings {
  /** Items that run at once, of all batches together. */
  readonly concurrency: number;
  /** For an uploaded file. */
  readonly fileBytes: number;
  /** For all files and results. */
  readonly diskBytes: number;
}

/** A plan that an account can subscribe to. */
export type PlanName = 'core' | 'core_pro';

/** A plan's cost and content. */
export interface PlanSettings {
  readonly biweekly: PlanPeriod;
  readonly monthly: PlanPeriod;
  readonly freeDailyRequests: number;
  /** The discount on text that is paid with money, in thousandths. */
  readonly discountPermille: number;
  /** The listed ids that the plan pays; null: all text models. */
  readonly models: readonly string[] | null;
}

/** A period's price and token budget. */
export interface PlanPeriod {
  readonly priceNanoUsd: bigint;
  readonly tokens: number;
}
