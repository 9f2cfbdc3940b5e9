import type { ErrorCode } from '../errors/error-table.ts';
import type { CloudSettings } from './clouds.ts';
import type { SecretSource } from './secret-sources.ts';
import type { Secret } from './secrets.ts';

/**
 * The checked configuration with all defaults, as plain frozen values, which `main.ts` passes on. Times are in ms, sizes in
 * bytes, prices are integers in the unit of the name. See docs/configuration.md "Options".
 */
export interface Config {
  /** The files that secrets were read from; absent: none was. */
  readonly secretSources?: readonly SecretSource[];
  /** The path of the file as given; absent if there is none. */
  readonly file?: string;
  /** The gateway's public URL, without a slash at its end; absent: the address of the public listener. */
  readonly publicUrl?: string;
  readonly shutdownGraceMs: number;
  readonly keepAliveMs: number;
  /** Origins that browsers may call from, or `*`; empty: none. */
  readonly corsOrigins: readonly string[];
  /** Addresses and networks of proxies whose `x-forwarded-for` is believed. */
  readonly trustedProxies: readonly string[];
  /** `public`: the public listener serves `GET /metrics`, too. */
  readonly metrics: 'internal' | 'public';
  readonly logLevel: 'error' | 'warn' | 'info' | 'debug';
  /** True to refuse a request whose translation would give a warning. */
  readonly strict: boolean;
  /** True if answers name their route in the header `x-tollgate-route`. */
  readonly exposeRoute: boolean;
  readonly dailyLimitUnit: 'dollars' | 'requests';
  readonly timeouts: Timeouts;
  /** The number of further attempts at a route before the next route is tried. */
  readonly retries: number;
  readonly capacity: CapacitySettings;
  /** TLS of the public listener; absent: it is unencrypted. */
  readonly tls?: TlsSettings;
  readonly rpc: RpcSettings;
  /** Absent: people can sign in only with keys and links. */
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
  /** Prices of models that local servers report; the first matching entry applies. */
  readonly discovered: readonly DiscoveredPricing[];
  /** The listed id for each alias. */
  readonly aliases: ReadonlyMap<string, string>;
  readonly plans: Readonly<Record<PlanName, PlanSettings>>;
}

/** How requests wait for providers. */
export interface CapacitySettings {
  /** How long a request waits at most for a key that is at its rate limit. */
  readonly waitMs: number;
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
  /** The certificate and its chain of intermediate certificates. */
  readonly certPath: string;
  readonly keyPath: string;
  /** Certificate authorities for clients: a client without a certificate of one of them is refused. Absent: clients need no certificate. */
  readonly clientCaPath?: string;
}

/** The credential of a service that the operator runs. */
export interface ServiceTokenSettings {
  readonly name: string;
  /** The tokens; several are valid while one replaces another. */
  readonly tokens: readonly Secret[];
  readonly scopes: readonly (
    | 'operator'
    | 'admin:read'
    | 'admin:write'
    | 'bodies:read'
    | 'metering'
    | 'generate'
    | 'edge'
  )[];
}

/** The OpenID Connect provider with which people sign in. */
export interface IdentityProviderSettings {
  readonly issuer: string;
  readonly clientId: string;
  readonly clientSecret: Secret;
  readonly scopes: readonly string[];
  /** Rules that give people a role: the first rule that matches a person applies. A person whom no rule matches can't sign in. */
  readonly people: readonly {
    readonly claim: string;
    /** The required value of the claim; if the claim is a list, one of its values. `*` matches any text. */
    readonly value: string;
    readonly role: 'operator' | 'owner' | 'member' | 'viewer';
    /** null for the operator, who sees all accounts. */
    readonly accountId: number | null;
  }[];
}

/** The internal listener. */
export interface RpcSettings {
  /** Absent: the listener is unencrypted. */
  readonly tls?: TlsSettings;
  /** `socket`: AdminService is only on the Unix socket. */
  readonly admin: 'everywhere' | 'socket';
  readonly tokens: readonly ServiceTokenSettings[];
  /** The largest message to a service that takes neither prompts nor images. */
  readonly controlBytes: number;
  /** The most fields and list entries of a message, together. */
  readonly messageElements: number;
  /** Services that can be called without a credential. */
  readonly open: {
    readonly bytesMax: number;
    readonly callsMax: number;
    readonly perAddressMax: number;
    readonly durationMs: number;
  };
}

/** Maximums for what clients and upstreams send, and for what it may take. */
export interface Limits {
  /** The largest body of a request that generates text or images or counts tokens, and the largest RPC message. */
  readonly bodyBytes: number;
  /** The largest body of any other request. */
  readonly otherBodyBytes: number;
  /** The most nested objects and arrays of a JSON body. */
  readonly bodyDepth: number;
  /** The most values of a JSON body in all. */
  readonly bodyValues: number;
  /** The most entries of an array, or members of an object, of a JSON body. */
  readonly listEntries: number;
  /** The most bytes of all bodies and stored contents above 1 MiB whose requests are being read or processed. */
  readonly bodyMemoryBytes: number;
  /** The same, for one account. */
  readonly accountBodyMemoryBytes: number;
  /** How long a request waits for the memory of a stored content. */
  readonly memoryWaitMs: number;
  /** The most memory for parsing one large body. */
  readonly parseMemoryBytes: number;
  /** The most time for parsing one large body. */
  readonly parseMs: number;
  /** A connection that accepts no bytes for this long is closed. */
  readonly stallMs: number;
  /** The most bytes that wait for clients to read them. */
  readonly unsentMemoryBytes: number;
  /** The most bytes of responses that are stored only as long as their WebSocket is open. */
  readonly sessionMemoryBytes: number;
  /** The same, for one account. */
  readonly accountSessionMemoryBytes: number;
  /** The most requests of one address that have no valid key and are still sending their bodies. */
  readonly addressRequests: number;
  /** The most choices that are generated at a time, over all requests. */
  readonly runningChoices: number;
  /** The same, for one account. */
  readonly accountRunningChoices: number;
  /** The most memory for one choice of an answer. */
  readonly answerBytes: number;
  /** The most memory for an answer that is not streamed, with all its choices. */
  readonly wholeAnswerBytes: number;
  /** The largest event of an upstream's stream; the largest answer of an upstream that does not stream. */
  readonly upstreamEventBytes: number;
  /** The most bytes of all images that are stored for clients to fetch by URL. */
  readonly imageFileBytes: number;
  /** The most image tasks that run at a time. */
  readonly imageTasks: number;
  /** The most image tasks that may wait. */
  readonly imageTaskQueue: number;
}

/** When requests are refused because of overload, and in which order requests run. */
export interface OverloadSettings {
  /** The gateway is overloaded if the event loop is this late. */
  readonly loopLagMs: number;
  /** The gateway is overloaded if this share of the heap, in thousandths, is in use. */
  readonly heapPermille: number;
  /** For how long requests are started in one turn of the event loop. */
  readonly sliceMs: number;
  /** The most requests of one account that may wait to start. */
  readonly queue: number;
}

/** How the ledger handles failing storage and unpaid costs. */
export interface LedgerSettings {
  /** How long a finished answer waits to be charged before it fails. */
  readonly settleTimeoutMs: number;
  /** An account is suspended if more nano-dollars than this have been written off; 0: never. */
  readonly writeOffMaxNanoUsd: bigint;
}

/** Storage other than the ledger: stored responses, answers of idempotency keys, image tasks, bodies. */
export interface ContentSettings {
  /** The space for everything except answers of idempotency keys. If it is full, finished documents are evicted: the oldest of the account that uses most. */
  readonly bytesMax: number;
  /** The space for answers of idempotency keys, which are never evicted. One account may use a quarter of it. */
  readonly replayBytesMax: number;
  /** How long a response is stored. */
  readonly responseLifetimeMs: number;
  /** Which bodies are stored, unless the key has its own setting. */
  readonly bodies: 'off' | 'errors' | 'all';
  /** The most bytes that are stored of each body. */
  readonly bodyBytesMax: number;
  readonly bodyLifetimeMs: number;
}

/** Texts and links that error answers contain in addition to the message. An absent link is null in answers. `{code}` in a link is replaced with the error's code. */
export interface Texts {
  readonly docs?: string;
  readonly support?: string;
  readonly community?: Readonly<Record<string, string>>;
  /** Replaces the tips of a code. */
  readonly tips: Readonly<Partial<Record<ErrorCode, string>>>;
}

/** Retention times of history. */
export interface RetentionSettings {
  /** How long settled requests are kept. */
  readonly activityMs: number;
  readonly auditMs: number;
}

/** The settings for webhooks. */
export interface WebhookSettings {
  /** True to allow addresses in private networks, and http:// without TLS. */
  readonly allowPrivate: boolean;
}

/** The built-in models. */
export interface SimulatorSettings {
  readonly enabled: boolean;
  /** 0: as fast as possible. */
  readonly tokensPerSecond: number;
  /** True if `!sim` lines steer the answers. */
  readonly steering: boolean;
}

/** A wire protocol of an upstream. */
export type ProtocolName = 'chat' | 'responses' | 'messages' | 'gemini' | 'images';

/** A protocol of a provider, with its address. */
export interface SpokenProtocol {
  readonly protocol: Exclude<ProtocolName, 'images'>;
  readonly baseUrl: string;
}

/** An upstream's address and credentials. */
export interface ProviderSettings {
  readonly name: string;
  /** The preset whose models it has; absent: it has only those of the file. */
  readonly preset?: string;
  /** The preset whose server it is, with the same deviations from the protocol; absent: the server is not known. */
  readonly dialect?: string;
  /** The protocol for clients whose own it does not speak. */
  readonly protocol: ProtocolName;
  /** In the form that the protocol's official client takes, without a slash at its end. */
  readonly baseUrl: string;
  /** The cloud at whose address it is; absent: it is in none. */
  readonly cloud?: CloudSettings;
  /** The address below which it reranks; absent: `baseUrl`. */
  readonly rerankUrl?: string;
  /** Its other protocols, in order of preference; absent: none. */
  readonly others?: readonly SpokenProtocol[];
  /** The keys, which are used in rotation; empty: no credential is sent. */
  readonly apiKeys: readonly Secret[];
  /** Headers that are sent with every call, with lower-case names. */
  readonly headers: Readonly<Record<string, Secret>>;
  /** The provider's timeouts; the general ones if it has none itself. */
  readonly timeouts: Timeouts;
  /** Which further fields of the client's request the provider gets: see docs/configuration.md; absent: `unpriced`. */
  readonly passthrough?: 'all' | 'unpriced' | 'known';
  /** How many calls may run at a time; absent: no limit. */
  readonly concurrency?: ConcurrencySettings;
  /** True if embeddings may be requested with token ids; absent: as usual for the protocol. */
  readonly tokenIds?: boolean;
}

/** How many calls a provider gets at a time, and how many may wait. */
export interface ConcurrencySettings {
  readonly slots: number;
  /** The most calls that wait; further ones are refused. */
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
  | '/v1/completions'
  | '/v1beta/models/{model}:generateContent'
  | '/v1beta/models/{model}:embedContent';

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
  /** Set if the length of its vectors can be chosen. */
  readonly dimensions?: true;
  /** The vocabulary of its token ids; absent: unknown. */
  readonly tokenizer?: string;
  /** From when on its users are warned, in seconds since 1970 UTC; absent: from now if it is to be retired. */
  readonly deprecatedAt?: number;
  /** From when on it can't be used, in seconds since 1970 UTC; absent: no date is set. */
  readonly retiresAt?: number;
  /** The listed id to use instead; absent: none is named. */
  readonly replacement?: string;
  /** The tiers in addition to the standard one. */
  readonly serviceTiers: readonly ('flex' | 'priority')[];
  /** False if the model is listed but can't be used. */
  readonly available: boolean;
  readonly pricing: PricingSettings;
  /** "2048x2048"; '' if unknown. */
  readonly maxSize: string;
  /** How the first route of a request is chosen; absent: `priority`. */
  readonly strategy?: 'priority' | 'cheapest' | 'fastest';
  /** Empty only if `available` is false. */
  readonly routes: readonly RouteSettings[];
}

/** Prices: in pico-dollars per token (dollars per 1 million tokens times 10^6), or in nano-dollars per image or search. Absent: no such price. */
export interface PricingSettings {
  readonly inputPicoUsd?: bigint;
  readonly outputPicoUsd?: bigint;
  readonly imageNanoUsd?: bigint;
  /** The prices of an image model that counts tokens. */
  readonly imageTokens?: ImageTokenPricingSettings;
  /** Price of a search of up to 100 documents. */
  readonly searchNanoUsd?: bigint;
  /** The price of a call of each tool that the provider runs, by its name ("web_search"). Absent: no such tool is offered. */
  readonly toolNanoUsd?: Readonly<Record<string, bigint>>;
  /** For how many calls of such tools money is held if a request sets no maximum; absent: 10. */
  readonly toolCalls?: number;
  /** Prices for images of certain sizes and qualities: the first match applies. Absent: all images have the same price. */
  readonly images?: readonly ImagePriceSettings[];
  readonly caching?: CachePricingSettings;
  /** The factor for items of batches, in thousandths; absent: 500 for models with a flex tier, else 1000. */
  readonly batchPermille?: number;
  /** The factors of service tiers by name, in thousandths; absent: 500 for flex and 2000 for priority. Others are further tiers of the model. */
  readonly tierPermille?: Readonly<Record<string, number>>;
  /** Sorted by threshold, ascending. */
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

/** Prices of an image model that counts tokens; cached input without a price costs as much as other input. */
export interface ImageTokenPricingSettings {
  readonly textInputPicoUsd: bigint;
  readonly imageInputPicoUsd: bigint;
  readonly cachedInputPicoUsd?: bigint;
  readonly outputPicoUsd: bigint;
}

/** Prices of cached input. Absent to read: as uncached input; absent to write: as the dearest lifetime, or if none has a price as uncached input. */
export interface CachePricingSettings {
  readonly readPicoUsd?: bigint;
  readonly write5mPicoUsd?: bigint;
  readonly write30mPicoUsd?: bigint;
  readonly write1hPicoUsd?: bigint;
  readonly write12hPicoUsd?: bigint;
}

/** The prices for all tokens of a request with more input tokens than `inputTokens`. */
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
  /** Routes with a lower number are tried first. */
  readonly priority: number;
  /** The share of requests among routes of the same priority; 0: the route is used only if the others can't be. */
  readonly weight: number;
  /** The tiers that the route has, in addition to the standard one; absent: all tiers of the model. */
  readonly tiers?: readonly string[];
  /** The most tokens of input and output at this route; absent: those of the model. */
  readonly contextLength?: number;
  /** The amount that the provider charges the operator; absent: unknown. */
  readonly cost?: PricingSettings;
}

/** How batches run, and the space for their files. */
export interface BatchSettings {
  /** The most items that run at a time, over all batches. */
  readonly concurrency: number;
  /** The largest uploaded file. */
  readonly fileBytes: number;
  /** The space for all files and results. */
  readonly diskBytes: number;
}

/** A plan that an account can subscribe to. */
export type PlanName = 'core' | 'core_pro';

/** A plan's price and contents. */
export interface PlanSettings {
  readonly biweekly: PlanPeriod;
  readonly monthly: PlanPeriod;
  readonly freeDailyRequests: number;
  /** The discount, in thousandths, on text that money pays for. */
  readonly discountPermille: number;
  /** The listed ids of the models that the plan pays for; null: all text models. */
  readonly models: readonly string[] | null;
}

/** A period's price and token budget. */
export interface PlanPeriod {
  readonly priceNanoUsd: bigint;
  readonly tokens: number;
}
