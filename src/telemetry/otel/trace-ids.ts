import { randomFillSync } from 'node:crypto';
import { ROOT_CONTEXT, SpanKind } from '@opentelemetry/api';
import { type IdGenerator, type Sampler, SamplingDecision } from '@opentelemetry/sdk-trace';

/** The ids of a trace that begins here, in lower-case hexadecimal. */
export interface NewTrace {
  readonly traceId: string;
  /** The id of its first span. */
  readonly spanId: string;
  readonly isSampled: boolean;
}

const poolBytes = 4096;

/**
 * Makes the ids of traces and spans. Whether a trace is sampled is decided by its id before a span is made, because most traces of a busy gateway consist of nothing but their ids.
 */
export class TraceIds implements IdGenerator {
  readonly #sampler: Sampler;
  readonly #pool = Buffer.alloc(poolBytes);
  #used = poolBytes;
  /** The ids of the last new trace, until its first span has got them. */
  #traceId: string | undefined;
  #spanId: string | undefined;

  /** `sampler`: decides whether traces without a parent are sampled. */
  constructor(sampler: Sampler) {
    this.#sampler = sampler;
  }

  /** Returns the ids of a new trace. If it is sampled, the next span without a parent gets them. */
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
