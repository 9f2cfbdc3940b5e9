import { Counter, Gauge, Histogram, Registry } from 'prom-client';

/** Seconds; an answer may take an hour, a first event five minutes. */
const durationBuckets = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 3600];
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
