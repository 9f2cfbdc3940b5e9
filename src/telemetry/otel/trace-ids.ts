import { randomFillSync } from 'node:crypto';
import { ROOT_CONTEXT, SpanKind } from '@opentelemetry/api';
import { type IdGenerator, type Sampler, SamplingDecision } from '@opentelemetry/sdk-trace';

/** The ids of a trace that begins here. Lower-case hexadecimal. */
export interface NewTrace {
  readonly traceId: string;
  /** The id of its first span. */
  readonly spanId: string;
  readonly isSampled: boolean;
}

const poolBytes = 4096;

/**
 * Makes the ids of traces and spans. Decides by the trace's id whether it is sampled before a span is made: most traces of a busy gateway consist of nothing but their ids.
 */
export class TraceIds implements IdGenerator {
  readonly #sampler: Sampler;
  readonly #pool = Buffer.alloc(poolBytes);
  #used = poolBytes;
  /** Ids that are made and not yet given to the spans that they were made for. */
  #traceId: string | undefined;
  #spanId: string | undefined;

  /** `sampler`: decides about traces that have no parent. */
  constructor(sampler: Sampler) {
    this.#sampler = sampler;
  }

  /** Returns a new trace's ids. The next span without a parent gets them if the trace is sampled. */
  begin(): NewTrace {
    const [traceId, spanId] = [this.#random(16), this.#random(8)];
    const { decision } = this.#sampler.shouldSample(ROOT_CONTEXT, traceId, 'request', SpanKind.SERVER, {}, []);
    const isSampled = decision === SamplingDecision.RECORD_AND_SAMPLED;
    if (isSampled) [this.#traceId, this.#spanId] = [traceId, spanId];
    return { traceId, spanId, isSampled };
  }

  generateTraceId(): string {
    const traceId = this.#traceId ?? this.#random(16);
    this.#traceId = undefined;
    return traceId;
  }

  generateSpanId(): string {
    const spanId = this.#spanId ?? this.#random(8);
    this.#spanId = undefined;
    return spanId;
  }

  #random(bytes: number): string {
    if (this.#used + bytes > poolBytes) {
      randomFillSync(this.#pool);
      this.#used = 0;
    }
    this.#used += bytes;
    return this.#pool.toString('hex', this.#used - bytes, this.#used);
  }
}
