import { Counter, Gauge, Histogram, Registry } from 'prom-client';

/** Seconds; an answer may take an hour, a first event five minutes. */
const durationBuckets = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 3600];
/** Seconds; a commit takes one sync of the disk. */
const ledgerBuckets = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1, 5];
/** More models than any catalogue lists: beyond them a label says "other", so that no caller can grow the registry. */
const modelLabelsMax = 2000;

/** One answered request. Absent `model`: it was refused before one was found. */
export interface RequestSample {
  /** The public path's pattern ("/v1/chat/completions"). */
  readonly endpoint: string;
  readonly model?: string;
  /** The HTTP status; 499 where the client went away before there was one. */
  readonly status: number;
  readonly durationMs: number;
  /** Until the model's first event. */
  readonly firstEventMs?: number;
  /** By kind ("input", "output", "cache_read", …). */
  readonly tokens?: Readonly<Record<string, number>>;
  readonly costUsd?: number;
}

/** One try at a route of a model. Names come from the configuration. */
export interface AttemptSample {
  readonly provider: string;
  readonly model: string;
  /** `completed`, or what ended it. */
  readonly result: string;
  readonly durationMs: number;
  /** Until its first event; absent where none came. */
  readonly firstEventMs?: number;
}

/** A route's circuit breaker. */
export interface BreakerSample {
  readonly provider: string;
  readonly model: string;
  readonly state: 'closed' | 'open' | 'half_open';
}

const breakerValues: Readonly<Record<BreakerSample['state'], number>> = { closed: 0, half_open: 0.5, open: 1 };

/** The process's metrics, Prometheus text. All label values come from the configuration or from fixed lists. */
export class Metrics {
  readonly registry = new Registry();
  readonly #models = new Set<string>();
  readonly #requests = new Counter({
    name: 'tollgate_requests_total',
    help: 'Answered requests.',
    labelNames: ['endpoint', 'model', 'status'],
    registers: [this.registry],
  });
  readonly #duration = new Histogram({
    name: 'tollgate_request_duration_seconds',
    help: 'Time from the request line to the end of the answer.',
    labelNames: ['endpoint', 'status'],
    buckets: durationBuckets,
    registers: [this.registry],
  });
  readonly #firstEvent = new Histogram({
    name: 'tollgate_first_event_seconds',
    help: 'Time from the request line to the first event of the model.',
    labelNames: ['endpoint', 'model'],
    buckets: durationBuckets,
    registers: [this.registry],
  });
  readonly #tokens = new Counter({
    name: 'tollgate_tokens_total',
    help: 'Tokens used, in buckets that do not overlap.',
    labelNames: ['endpoint', 'model', 'kind'],
    registers: [this.registry],
  });
  readonly #cost = new Counter({
    name: 'tollgate_cost_dollars_total',
    help: 'Dollars debited.',
    labelNames: ['endpoint', 'model'],
    registers: [this.registry],
  });
  readonly #openStreams = new Gauge({
    name: 'tollgate_open_streams',
    help: 'Streams that are being answered.',
    labelNames: ['endpoint'],
    registers: [this.registry],
  });

  readonly #attempts = new Counter({
    name: 'tollgate_upstream_attempts_total',
    help: 'Tries at the routes of models, by how they ended.',
    labelNames: ['provider', 'model', 'result'],
    registers: [this.registry],
  });
  readonly #attemptDuration = new Histogram({
    name: 'tollgate_upstream_attempt_duration_seconds',
    help: 'Time of a try, from its start to its end.',
    labelNames: ['provider'],
    buckets: durationBuckets,
    registers: [this.registry],
  });
  readonly #attemptFirstEvent = new Histogram({
    name: 'tollgate_upstream_first_event_seconds',
    help: 'Time from the start of a try to its first event.',
    labelNames: ['provider', 'model'],
    buckets: durationBuckets,
    registers: [this.registry],
  });
  readonly #ledgerWait = new Histogram({
    name: 'tollgate_ledger_commit_seconds',
    help: 'Time from the hand-over of a batch of commands to the ledger until it is durable.',
    buckets: ledgerBuckets,
    registers: [this.registry],
  });
  readonly #ledgerQueue = new Gauge({
    name: 'tollgate_ledger_queue',
    help: 'Commands that the ledger has not answered yet.',
    registers: [this.registry],
  });

  /** Counts a try that has ended. */
  attempted({ provider, model, result, durationMs, firstEventMs }: AttemptSample): void {
    this.#attempts.inc({ provider, model, result });
    this.#attemptDuration.observe({ provider }, durationMs / 1000);
    if (firstEventMs !== undefined) this.#attemptFirstEvent.observe({ provider, model }, firstEventMs / 1000);
  }

  /** Shows the breakers' states whenever somebody looks: 0 closed, 0.5 half open, 1 open. */
  showBreakers(read: () => readonly BreakerSample[]): void {
    const gauge: Gauge = new Gauge({
      name: 'tollgate_route_breaker',
      help: 'State of a route’s circuit breaker: 0 closed, 0.5 half open, 1 open.',
      labelNames: ['provider', 'model'],
      registers: [this.registry],
      collect: () => {
        gauge.reset();
        for (const { provider, model, state } of read()) gauge.set({ provider, model }, breakerValues[state]);
      },
    });
  }

  /** A batch of commands to the ledger became durable; `waiting` commands were unanswered then. */
  committed(durationMs: number, waiting: number): void {
    this.#ledgerWait.observe(durationMs / 1000);
    this.#ledgerQueue.set(waiting);
  }

  /** Counts an answered request. */
  answered(sample: RequestSample): void {
    const { endpoint, status } = sample;
    const model = this.#modelLabel(sample.model ?? '');
    this.#requests.inc({ endpoint, model, status });
    this.#duration.observe({ endpoint, status }, sample.durationMs / 1000);
    if (sample.firstEventMs !== undefined) this.#firstEvent.observe({ endpoint, model }, sample.firstEventMs / 1000);
    for (const [kind, count] of Object.entries(sample.tokens ?? {})) {
      if (count > 0) this.#tokens.inc({ endpoint, model, kind }, count);
    }
    if (sample.costUsd !== undefined) this.#cost.inc({ endpoint, model }, sample.costUsd);
  }

  /** A stream began; call the answer when it has ended. */
  streamOpened(endpoint: string): () => void {
    this.#openStreams.inc({ endpoint });
    return () => this.#openStreams.dec({ endpoint });
  }

  #modelLabel(model: string): string {
    if (this.#models.has(model)) return model;
    if (this.#models.size >= modelLabelsMax) return 'other';
    this.#models.add(model);
    return model;
  }
}
