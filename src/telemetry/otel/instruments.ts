import type { Attributes, Counter, Histogram, Meter } from '@opentelemetry/api';
import { dollarsNumber } from '../../lib/dollars.ts';
import type { AttemptEnd, RequestEnd, RequestTelemetry, SettledFacts } from '../request-telemetry.ts';

/** Bounds that the GenAI conventions recommend, for the seconds of an operation and for tokens. */
const operationSeconds = [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92];
const firstTokenSeconds = [0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10];
const requestSeconds = [0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10];
const tokenBounds = [1, 4, 16, 64, 256, 1024, 4096, 16_384, 65_536, 262_144, 1_048_576, 4_194_304];

/** The metrics that are exported over OTLP, with the names of the conventions for GenAI and HTTP. The conventions have no name for dollars, so that one is ours. Source: OpenTelemetry semantic conventions, "Generative AI metrics". */
export class Instruments {
  readonly #operation: Histogram;
  readonly #firstToken: Histogram;
  readonly #tokens: Histogram;
  readonly #request: Histogram;
  readonly #cost: Counter;

  constructor(meter: Meter) {
    const histogram = (name: string, unit: string, bounds: number[], description: string): Histogram =>
      meter.createHistogram(name, { unit, description, advice: { explicitBucketBoundaries: bounds } });
    this.#operation = histogram(
      'gen_ai.client.operation.duration',
      's',
      operationSeconds,
      'Time of an attempt at a provider.',
    );
    this.#firstToken = histogram(
      'gen_ai.client.operation.time_to_first_chunk',
      's',
      firstTokenSeconds,
      'Time from the start of an attempt to its first event.',
    );
    this.#tokens = histogram('gen_ai.client.token.usage', '{token}', tokenBounds, 'Tokens of a request.');
    this.#request = histogram('http.server.request.duration', 's', requestSeconds, 'Time of a request.');
    this.#cost = meter.createCounter('tollgate.cost', { unit: 'USD', description: 'Dollars debited.' });
  }

  attemptEnded(attributes: Attributes, durationMs: number, { firstEventMs }: AttemptEnd): void {
    this.#operation.record(durationMs / 1000, attributes);
    if (firstEventMs !== undefined) this.#firstToken.record(firstEventMs / 1000, attributes);
  }

  settled(attributes: Attributes, { tokens, costNanoUsd }: SettledFacts): void {
    const { output = 0, ...input } = tokens;
    const total = Object.values(input).reduce((sum, count) => sum + count, 0);
    this.#tokens.record(total, { ...attributes, 'gen_ai.token.type': 'input' });
    this.#tokens.record(output, { ...attributes, 'gen_ai.token.type': 'output' });
    this.#cost.add(dollarsNumber(costNanoUsd), attributes);
  }

  ended(_: RequestTelemetry, { method, endpoint, status, code }: RequestEnd, durationMs: number): void {
    this.#request.record(durationMs / 1000, {
      'http.request.method': method,
      'http.route': endpoint,
      'http.response.status_code': status,
      ...(code === undefined ? {} : { 'error.type': code }),
    });
  }
}
