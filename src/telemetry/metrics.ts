import { type Histogram, Histograms, Numbers, type Plain } from './families.ts';
import { processFamilies } from './process-families.ts';

/** The content type of the metrics' text. */
export const metricsContentType = 'text/plain; version=0.0.4; charset=utf-8';

/** Bounds in seconds. An answer may take an hour, a first event five minutes. */
const durationBuckets = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 3600];
/** Bounds in seconds. A commit takes as long as a sync of the disk. */
const ledgerBuckets = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1, 5];
/**
 * The most different models and routes as labels; further ones get the label "other", so that no caller can make the registry grow. No
 * configuration has so many.
 */
const namesMax = 2000;

/** One answered request. */
export interface RequestSample {
  /** The public path's pattern ("/v1/chat/completions"); `other` for an unknown path. */
  readonly endpoint: string;
  /** The listed id; `other` if the catalogue does not know the requested model; absent: none was requested. */
  readonly model?: string | undefined;
  /** The route of the last attempt as "provider/model"; absent: no attempt was made. */
  readonly route?: string | undefined;
  /** The HTTP status; 499 if the client disconnected before there was one. */
  readonly status: number;
  /** The code of the error; absent: there was no error. */
  readonly code?: string | undefined;
  readonly durationMs: number;
  /** The time until the first event of the model. */
  readonly firstEventMs?: number | undefined;
  readonly tokens?: TokenCounts | undefined;
  readonly costUsd?: number | undefined;
  /** The amount that the provider charges the operator; absent: unknown. */
  readonly providerCostUsd?: number | undefined;
}

const tokenKinds = ['input', 'cache_read', 'cache_write_5m', 'cache_write_1h', 'output'] as const;

/** Tokens by kind; the kinds do not overlap. */
export type TokenCounts = Readonly<Partial<Record<(typeof tokenKinds)[number], number>>>;

/** Series that a request counts in, each looked up when a request first counts in it: that is most of the work of counting one. */
interface AnsweredSeries extends Partial<Record<(typeof tokenKinds)[number] | 'cost', Plain>> {
  duration?: Histogram;
  firstEvent?: Histogram;
}

/** One attempt at a route of a model. Names come from the configuration. */
export interface AttemptSample {
  readonly provider: string;
  readonly model: string;
  /** How the attempt ended: `completed`, or why it failed. */
  readonly result: string;
  readonly durationMs: number;
  /** The time until its first event; absent if none came. */
  readonly firstEventMs?: number | undefined;
}

/** How the tokens that a provider counts differ from our estimate, for one kind of text. */
export interface LearnedSample {
  readonly provider: string;
  /** The listed id of the model. */
  readonly model: string;
  /** "input" or "output", and the kind of text. */
  readonly of: string;
  readonly ratio: number;
}

/** The number of a provider's keys that are in one state. */
export interface KeySample {
  readonly provider: string;
  readonly state: 'working' | 'resting' | 'probing';
  readonly count: number;
}

/** Functions that are called whenever the metrics are requested. */
export interface GaugeSources {
  breakers(): readonly BreakerSample[];
  providerKeys(): readonly KeySample[];
  /** Returns the amount that running requests hold, in dollars. */
  heldUsd(): number;
  /** Returns how much memory large bodies and large stored contents have, in bytes, and how many requests wait for some. */
  largeMemory(): { readonly taken: number; readonly waiting: number };
  /** Returns the sizes of the files in the data directory, in bytes, by kind. */
  fileBytes(): Readonly<Record<string, number>>;
  /** Returns how the token counts of providers differ from our estimates. */
  learnedTokens(): readonly LearnedSample[];
}

/** A route's circuit breaker. */
export interface BreakerSample {
  readonly provider: string;
  readonly model: string;
  readonly state: 'closed' | 'open' | 'half_open';
}

const breakerValues: Readonly<Record<BreakerSample['state'], number>> = { closed: 0, half_open: 0.5, open: 1 };

/** The process's metrics. All label values come from the configuration or from fixed lists. */
export class Metrics {
  readonly #models = new Names();
  readonly #routes = new Names();
  /** Of usage, which providers name. */
  readonly #members = new Names();
  readonly #requests = new Numbers('counter', {
    name: 'tollgate_requests_total',
    help: 'Answered requests, refused ones too.',
    labels: ['model', 'endpoint', 'route', 'status', 'code'],
  });
  readonly #duration = new Histograms(durationBuckets, {
    name: 'tollgate_request_duration_seconds',
    help: 'Time from the request line to the end of the answer.',
    labels: ['endpoint', 'status'],
  });
  readonly #firstEvent = new Histograms(durationBuckets, {
    name: 'tollgate_first_event_seconds',
    help: 'Time from the request line to the first event of the model.',
    labels: ['endpoint', 'model'],
  });
  readonly #tokens = new Numbers('counter', {
    name: 'tollgate_tokens_total',
    help: 'Tokens used, in buckets that do not overlap.',
    labels: ['endpoint', 'model', 'kind'],
  });
  readonly #cost = new Numbers('counter', {
    name: 'tollgate_cost_dollars_total',
    help: 'Dollars debited.',
    labels: ['endpoint', 'model'],
  });
  readonly #providerCost = new Numbers('counter', {
    name: 'tollgate_provider_cost_dollars_total',
    help: 'Dollars that providers charge the operator, of routes whose cost is configured.',
    labels: ['endpoint', 'model', 'route'],
  });
  readonly #margin = new Numbers('gauge', {
    name: 'tollgate_margin_dollars',
    help: 'Dollars debited since the start less what providers charge, of routes whose cost is configured.',
    labels: ['endpoint', 'model', 'route'],
  });
  readonly #openStreams = new Numbers('gauge', {
    name: 'tollgate_open_streams',
    help: 'Streams that are being answered.',
    labels: ['endpoint'],
  });
  readonly #attempts = new Numbers('counter', {
    name: 'tollgate_upstream_attempts_total',
    help: 'Attempts at the routes of models, by how they ended.',
    labels: ['provider', 'model', 'result'],
  });
  readonly #attemptDuration = new Histograms(durationBuckets, {
    name: 'tollgate_upstream_attempt_duration_seconds',
    help: 'Time of an attempt, from its start to its end.',
    labels: ['provider'],
  });
  readonly #attemptFirstEvent = new Histograms(durationBuckets, {
    name: 'tollgate_upstream_first_event_seconds',
    help: 'Time from the start of an attempt to its first event.',
    labels: ['provider', 'model'],
  });
  readonly #ledgerWaits = new Histograms(ledgerBuckets, {
    name: 'tollgate_ledger_commit_seconds',
    help: 'Time from sending a batch of commands to the ledger until it is committed; if all of them wait for the disk, until it is durable.',
  });
  readonly #ledgerQueues = new Numbers('gauge', {
    name: 'tollgate_ledger_queue',
    help: 'Commands that have no reply from the ledger yet.',
  });
  readonly #breakers = new Numbers('gauge', {
    name: 'tollgate_route_breaker',
    help: 'State of a route’s circuit breaker: 0 closed, 0.5 half open, 1 open.',
    labels: ['provider', 'model'],
  });
  readonly #learned = new Numbers('gauge', {
    name: 'tollgate_learned_tokens_ratio',
    help: 'Reported tokens divided by estimated tokens, for a text of 1,000 estimated tokens. Answers without reported usage are charged by it.',
    labels: ['provider', 'model', 'of'],
  });
  readonly #providerKeys = new Numbers('gauge', {
    name: 'tollgate_provider_keys',
    help: 'Keys of a provider: working, in cooldown after a refusal, or being tried again.',
    labels: ['provider', 'state'],
  });
  readonly #keyRefusals = new Numbers('counter', {
    name: 'tollgate_provider_key_refusals_total',
    help: 'Refusals of a provider’s keys, by status.',
    labels: ['provider', 'status'],
  });
  readonly #unpriced = new Numbers('counter', {
    name: 'tollgate_unpriced_usage_total',
    help: 'Requests for which a provider may have billed a member that has no price.',
    labels: ['provider', 'member'],
  });
  readonly #held = new Numbers('gauge', {
    name: 'tollgate_held_dollars',
    help: 'Dollars that running requests hold.',
  });
  readonly #largeMemory = new Numbers('gauge', {
    name: 'tollgate_large_content_bytes',
    help: 'Memory reserved for large bodies and large stored contents.',
  });
  readonly #largeMemoryWaiting = new Numbers('gauge', {
    name: 'tollgate_large_content_waiting',
    help: 'Requests that wait for memory for large stored contents.',
  });
  readonly #files = new Numbers('gauge', {
    name: 'tollgate_file_bytes',
    help: 'Sizes of the files of the data directory.',
    labels: ['file'],
  });
  readonly #build = new Numbers('gauge', {
    name: 'tollgate_build_info',
    help: 'Always 1; the label has the version.',
    labels: ['version'],
  });
  readonly #ledgerWait = this.#ledgerWaits.of();
  readonly #ledgerQueue = this.#ledgerQueues.of();
  /** The series that requests with the same labels also count in, by their series of `#requests`. */
  readonly #beside = new Map<Plain, AnsweredSeries>();
  #sources: GaugeSources | undefined;
  readonly #further: (() => string)[] = [];

  /** `version`: the version of the gateway. */
  constructor(version: string) {
    this.#build.of(version).value = 1;
  }

  /** Counts an attempt that has ended. */
  attempted({ provider, model, result, durationMs, firstEventMs }: AttemptSample): void {
    this.#attempts.of(provider, model, result).value += 1;
    this.#attemptDuration.of(provider).observe(durationMs / 1000);
    if (firstEventMs !== undefined) this.#attemptFirstEvent.of(provider, model).observe(firstEventMs / 1000);
  }

  /** Appends further metrics: `read` returns them in Prometheus' text format whenever metrics are requested. */
  add(read: () => string): void {
    this.#further.push(read);
  }

  /** Adds the gauges whose values `sources` returns. */
  addGauges(sources: GaugeSources): void {
    this.#sources = sources;
  }

  /** Counts a refusal of a provider's key. */
  keyRefused(provider: string, status: number): void {
    this.#keyRefusals.of(provider, status).value += 1;
  }

  /** Counts a request for which a provider may have billed a member without a price. */
  unpriced(provider: string, member: string): void {
    this.#unpriced.of(provider, this.#members.label(member)).value += 1;
  }

  /** Counts a batch of commands to the ledger that became durable. `waiting`: the number of commands without a reply then. */
  committed(durationMs: number | undefined, waiting: number): void {
    if (durationMs !== undefined) this.#ledgerWait.observe(durationMs / 1000);
    this.#ledgerQueue.value = waiting;
  }

  /** Counts an answered request. */
  answered(sample: RequestSample): void {
    const { endpoint, status, code = '', durationMs, firstEventMs, tokens, costUsd, providerCostUsd } = sample;
    const model = this.#models.label(sample.model ?? '');
    const route = this.#routes.label(sample.route ?? '');
    const requests = this.#requests.of(model, endpoint, route, status, code);
    requests.value += 1;
    const series = this.#seriesBeside(requests);
    series.duration ??= this.#duration.of(endpoint, status);
    series.duration.observe(durationMs / 1000);
    if (firstEventMs !== undefined) {
      series.firstEvent ??= this.#firstEvent.of(endpoint, model);
      series.firstEvent.observe(firstEventMs / 1000);
    }
    if (tokens !== undefined) {
      for (const kind of tokenKinds) {
        const count = tokens[kind] ?? 0;
        if (count > 0) (series[kind] ??= this.#tokens.of(endpoint, model, kind)).value += count;
      }
    }
    if (costUsd !== undefined) (series.cost ??= this.#cost.of(endpoint, model)).value += costUsd;
    if (providerCostUsd === undefined) return;
    this.#providerCost.of(endpoint, model, route).value += providerCostUsd;
    this.#margin.of(endpoint, model, route).value += (costUsd ?? 0) - providerCostUsd;
  }

  #seriesBeside(requests: Plain): AnsweredSeries {
    let series = this.#beside.get(requests);
    if (series === undefined) this.#beside.set(requests, (series = {}));
    return series;
  }

  /** Counts a stream that has begun. Call the returned function when the stream has ended. */
  streamOpened(endpoint: string): () => void {
    const series = this.#openStreams.of(endpoint);
    series.value += 1;
    return () => {
      series.value -= 1;
    };
  }

  /** Returns the metrics in Prometheus' text format. For `anyone`, leaves out those that show what providers charge. */
  text(reader: 'operator' | 'anyone' = 'operator'): string {
    if (this.#sources !== undefined) this.#readGauges(this.#sources);
    const families = [
      this.#requests,
      this.#duration,
      this.#firstEvent,
      this.#tokens,
      this.#cost,
      ...(reader === 'operator' ? [this.#providerCost, this.#margin] : []),
      this.#held,
      this.#openStreams,
      this.#largeMemory,
      this.#largeMemoryWaiting,
      this.#attempts,
      this.#attemptDuration,
      this.#attemptFirstEvent,
      this.#providerKeys,
      this.#keyRefusals,
      this.#unpriced,
      this.#breakers,
      this.#ledgerWaits,
      this.#ledgerQueues,
      this.#learned,
      this.#files,
      this.#build,
      ...processFamilies(),
    ];
    const texts = [...families.map(family => family.text()), ...this.#further.map(read => read())];
    return `${texts.join('\n\n')}\n`;
  }

  #readGauges(sources: GaugeSources): void {
    this.#breakers.clear();
    for (const { provider, model, state } of sources.breakers())
      this.#breakers.of(provider, model).value = breakerValues[state];
    this.#providerKeys.clear();
    for (const { provider, state, count } of sources.providerKeys())
      this.#providerKeys.of(provider, state).value = count;
    this.#held.of().value = sources.heldUsd();
    const { taken, waiting } = sources.largeMemory();
    this.#largeMemory.of().value = taken;
    this.#largeMemoryWaiting.of().value = waiting;
    this.#files.clear();
    for (const [file, bytes] of Object.entries(sources.fileBytes())) this.#files.of(file).value = bytes;
    this.#learned.clear();
    for (const { provider, model, of, ratio } of sources.learnedTokens())
      this.#learned.of(provider, model, of).value = ratio;
  }
}

/** Bounds the number of different names used as labels: further ones become `other`. */
class Names {
  readonly #known = new Set<string>();

  label(name: string): string {
    if (this.#known.has(name)) return name;
    if (this.#known.size >= namesMax) return 'other';
    this.#known.add(name);
    return name;
  }
}
