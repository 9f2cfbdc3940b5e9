import {
  type Attributes,
  type Context,
  context,
  ROOT_CONTEXT,
  type Span,
  SpanKind,
  SpanStatusCode,
  trace,
  type Tracer,
} from '@opentelemetry/api';
import { dollarsNumber } from '../../lib/dollars.ts';
import type {
  AttemptEnd,
  Operation,
  RequestEnd,
  RequestTelemetry,
  RequestTrace,
  RouteReason,
  SettledFacts,
  TelemetryRoute,
} from '../request-telemetry.ts';
import type { Instruments } from './instruments.ts';
import type { NewTrace, TraceIds } from './trace-ids.ts';

/** The dependencies of a `SpanTrace`. */
export interface TraceTools {
  /** Undefined: only metrics are exported. */
  readonly tracer: Tracer | undefined;
  /** Makes the ids of traces and spans for the tracer. */
  readonly ids: TraceIds;
  /** Undefined: only traces are exported. */
  readonly instruments: Instruments | undefined;
}

/** Returns the time in ms since 1970 UTC, with a precision of microseconds. */
const nowMs = (): number => performance.timeOrigin + performance.now();

/**
 * The spans of one request: the request itself, its admission, each attempt with its translation, and its settle. A request
 * that is not sampled has no spans, only the ids that are sent upstream. Attributes never contain content or credentials.
 */
export class SpanTrace implements RequestTrace {
  readonly #tracer: Tracer | undefined;
  readonly #instruments: Instruments | undefined;
  readonly #root: Span | undefined;
  /** The ids of a trace that begins here and is not sampled, so that no span is made. */
  readonly #unsampled: NewTrace | undefined;
  /** True if spans are made. */
  readonly #isRecorded: boolean;
  /** True if spans are made or metrics are exported. If false, attempts are ignored. */
  readonly #isFollowed: boolean;
  readonly #startedAtMs: number;
  readonly #rootContext: Context;
  #admission: Span | undefined;
  #attempt: Span | undefined;
  #attemptContext: Context | undefined;
  #attemptAttributes: Attributes = {};
  #attemptAtMs = 0;
  #settle: Span | undefined;

  constructor({ tracer, ids, instruments }: TraceTools, { traceparent }: RequestTelemetry) {
    this.#tracer = tracer;
    this.#instruments = instruments;
    const begun = tracer === undefined || traceparent !== undefined ? undefined : ids.begin();
    if (begun?.isSampled === false) this.#unsampled = begun;
    else this.#root = tracer?.startSpan('request', { kind: SpanKind.SERVER }, parentContext(traceparent));
    this.#isRecorded = this.#root?.isRecording() === true;
    this.#isFollowed = this.#isRecorded || instruments !== undefined;
    this.#startedAtMs = instruments === undefined ? 0 : nowMs();
    this.#rootContext =
      this.#isRecorded && this.#root !== undefined ? trace.setSpan(ROOT_CONTEXT, this.#root) : ROOT_CONTEXT;
  }

  get traceId(): string | undefined {
    return this.#unsampled?.traceId ?? this.#root?.spanContext().traceId;
  }

  get traceparent(): string | undefined {
    if (this.#unsampled !== undefined) return `00-${this.#unsampled.traceId}-${this.#unsampled.spanId}-00`;
    const { traceId, spanId, traceFlags } = (this.#attempt ?? this.#root)?.spanContext() ?? {};
    if (traceId === undefined || spanId === undefined) return undefined;
    return `00-${traceId}-${spanId}-${(traceFlags ?? 0).toString(16).padStart(2, '0')}`;
  }

  admissionBegan(): void {
    this.#admission = this.#child('admission');
  }

  admissionEnded({ heldNanoUsd }: RequestTelemetry, code: string | undefined): void {
    if (heldNanoUsd !== undefined) this.#admission?.setAttribute('tollgate.held_usd', dollarsNumber(heldNanoUsd));
    if (code !== undefined) fail(this.#admission, code);
    this.#admission?.end();
  }

  attemptBegan(route: TelemetryRoute, attempt: number, reason: RouteReason | undefined, operation: Operation): void {
    if (!this.#isFollowed) return;
    this.#attemptAtMs = nowMs();
    this.#attemptAttributes = {
      'gen_ai.operation.name': operation,
      'gen_ai.provider.name': route.provider,
      'gen_ai.request.model': route.model,
    };
    const attributes: Attributes = {
      ...this.#attemptAttributes,
      'tollgate.attempt': attempt,
      ...(reason === undefined ? {} : { 'tollgate.route_reason': reason }),
    };
    this.#attempt = this.#child(`${operation} ${route.model}`, { kind: SpanKind.CLIENT, attributes });
    this.#attemptContext = this.#attempt && trace.setSpan(this.#rootContext, this.#attempt);
  }

  translated(protocol: string, durationMs: number): void {
    if (this.#attemptContext === undefined) return;
    const endedAtMs = nowMs();
    const attributes = { 'tollgate.protocol': protocol };
    const options = { startTime: endedAtMs - durationMs, attributes };
    this.#tracer?.startSpan('translation', options, this.#attemptContext).end(endedAtMs);
  }

  attemptEnded({ upstreamRequestId, upstreamMessage }: RequestTelemetry, end: AttemptEnd): void {
    if (!this.#isFollowed) return;
    const { result, status, firstEventMs } = end;
    const isFailure = result !== 'completed' && result !== 'cut';
    const attributes = isFailure ? { ...this.#attemptAttributes, 'error.type': result } : this.#attemptAttributes;
    this.#instruments?.attemptEnded(attributes, nowMs() - this.#attemptAtMs, end);
    const span = this.#attempt;
    this.#attempt = undefined;
    if (span === undefined) return;
    setDefined(span, {
      'tollgate.result': result,
      'http.response.status_code': status,
      'gen_ai.response.time_to_first_chunk': firstEventMs === undefined ? undefined : firstEventMs / 1000,
      'tollgate.upstream.request_id': upstreamRequestId,
      'tollgate.upstream.message': upstreamMessage,
    });
    if (isFailure) fail(span, status === undefined ? result : String(status));
    span.end();
  }

  settleBegan(): void {
    this.#settle = this.#child('settle');
  }

  settleEnded(settled: SettledFacts | undefined): void {
    const span = this.#settle;
    this.#settle = undefined;
    if (settled === undefined) span?.setAttribute('tollgate.state', 'voided');
    else {
      this.#instruments?.settled(this.#attemptAttributes, settled);
      if (span !== undefined) setDefined(span, { 'tollgate.state': settled.state, ...costAttributes(settled) });
    }
    span?.end();
  }

  ended(telemetry: RequestTelemetry, end: RequestEnd): void {
    this.#instruments?.ended(telemetry, end, nowMs() - this.#startedAtMs);
    const root = this.#root;
    if (root === undefined || !this.#isRecorded) return;
    const { method, endpoint, status, code, finish, requestId } = end;
    root.updateName(`${method} ${endpoint}`);
    setDefined(root, {
      'http.request.method': method,
      'http.route': endpoint,
      'http.response.status_code': status,
      'gen_ai.operation.name': this.#attemptAttributes['gen_ai.operation.name'],
      'gen_ai.request.model': telemetry.model,
      'gen_ai.provider.name': telemetry.route?.provider,
      'gen_ai.response.finish_reasons': finish === undefined ? undefined : [finish],
      'tollgate.request_id': requestId,
      'tollgate.client_request_id': telemetry.clientRequestId,
      'tollgate.account_id': telemetry.accountId,
      'tollgate.key_id': telemetry.keyId,
      'tollgate.attempts': telemetry.attempts,
      'tollgate.held_usd': telemetry.heldNanoUsd === undefined ? undefined : dollarsNumber(telemetry.heldNanoUsd),
      ...(telemetry.settled === undefined ? {} : costAttributes(telemetry.settled)),
    });
    if (code !== undefined) root.setAttribute('error.type', code);
    if (status >= 500) root.setStatus({ code: SpanStatusCode.ERROR });
    root.end();
  }

  /** Starts a child of the request's span; undefined if no spans are made. */
  #child(name: string, options: { kind?: SpanKind; attributes?: Attributes } = {}): Span | undefined {
    return this.#isRecorded ? this.#tracer?.startSpan(name, options, this.#rootContext) : undefined;
  }
}

/** Returns the attributes for tokens and money. The conventions have names for tokens, but not for money. */
function costAttributes({ tokens, costNanoUsd }: SettledFacts): Attributes {
  const { input = 0, output = 0, cache_read = 0, cache_write_5m = 0, cache_write_1h = 0 } = tokens;
  const written = cache_write_5m + cache_write_1h;
  return {
    'gen_ai.usage.input_tokens': input + cache_read + written,
    'gen_ai.usage.output_tokens': output,
    'gen_ai.usage.cache_read.input_tokens': cache_read,
    'gen_ai.usage.cache_creation.input_tokens': written,
    'tollgate.cost_usd': dollarsNumber(costNanoUsd),
  };
}

function setDefined(span: Span, attributes: Readonly<Record<string, Attributes[string]>>): void {
  for (const [name, value] of Object.entries(attributes)) if (value !== undefined) span.setAttribute(name, value);
}

function fail(span: Span | undefined, type: string): void {
  span?.setAttribute('error.type', type);
  span?.setStatus({ code: SpanStatusCode.ERROR });
}

/** Returns the context of the client's trace; the root context if the client sent none. */
function parentContext(traceparent: string | undefined): Context {
  if (traceparent === undefined) return ROOT_CONTEXT;
  const [, traceId = '', spanId = '', flags = ''] = traceparent.split('-');
  const parent = { traceId, spanId, traceFlags: Number.parseInt(flags, 16) & 1, isRemote: true };
  return trace.setSpanContext(context.active(), parent);
}
