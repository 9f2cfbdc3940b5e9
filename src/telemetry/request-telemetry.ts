import type { TokenCounts } from './metrics.ts';

/** A route as logs, metrics and traces name it. */
export interface TelemetryRoute {
  /** The provider's name. */
  readonly provider: string;
  /** The provider's own name of the model. */
  readonly model: string;
}

/** Why a request was sent to its route. */
export type RouteReason =
  /** By the configuration: by priority, and by weight among routes of the same priority. */
  | 'priority'
  /** The route has the lowest cost. */
  | 'cheapest'
  /** The route has the fastest first event. */
  | 'fastest'
  /** The route was chosen to measure its speed, because too few measurements were known. */
  | 'measured'
  /** The conversation has been on this route before. */
  | 'conversation'
  /** An earlier route failed. */
  | 'fallback';

/**
 * The operation of a request: text, images, vectors or reranking. The names are those of OpenTelemetry's conventions, except
 * `rerank`, for which they have none.
 */
export type Operation = 'chat' | 'generate_content' | 'embeddings' | 'rerank';

/** The end of an attempt, for a trace. */
export interface AttemptEnd {
  /** How the attempt ended: `completed`, or why it failed. */
  readonly result: string;
  readonly status?: number | undefined;
  /** Milliseconds until its first event; absent if none came. */
  readonly firstEventMs?: number | undefined;
}

/** The result of a settle, for logs, metrics and traces. */
export interface SettledFacts {
  /** `completed`, `incomplete`, `client_aborted`, `upstream_failed`. */
  readonly state: string;
  readonly tokens: TokenCounts;
  readonly costNanoUsd: bigint;
  /** The amount that the provider charges the operator; undefined: unknown. */
  readonly providerCostNanoUsd: bigint | undefined;
}

/** Receives the answer that the client gets, so that it can be stored. */
export interface AnswerTap {
  /** Called with each piece of the answer's body, in order. */
  answered(text: string): void;
  /** Called when the client has its answer or has disconnected. */
  clientEnded(): void;
}

/** The end of a request, for a trace. */
export interface RequestEnd {
  /** The path's pattern. */
  readonly endpoint: string;
  readonly method: string;
  readonly requestId: string;
  readonly status: number;
  readonly code: string | undefined;
  /** The finish reason; undefined if the answer did not end, or nothing was generated. */
  readonly finish: string | undefined;
}

/** The trace of one request. Each method is called when the event that it names happens. Exists only if OpenTelemetry is enabled. */
export interface RequestTrace {
  /** Undefined if only metrics are exported. */
  readonly traceId: string | undefined;
  admissionBegan(): void;
  admissionEnded(telemetry: RequestTelemetry, code: string | undefined): void;
  attemptBegan(route: TelemetryRoute, attempt: number, reason: RouteReason | undefined, operation: Operation): void;
  /** The request was encoded for the provider's protocol, which took `durationMs`. */
  translated(protocol: string, durationMs: number): void;
  attemptEnded(telemetry: RequestTelemetry, end: AttemptEnd): void;
  settleBegan(): void;
  settleEnded(settled: SettledFacts | undefined): void;
  /** The request has ended: no other method is called afterwards. */
  ended(telemetry: RequestTelemetry, end: RequestEnd): void;
  /** The W3C `traceparent` for the current attempt; undefined if only metrics are exported. */
  readonly traceparent: string | undefined;
}

/**
 * Collects the facts of one request on its way through the gateway, for its log line, its metrics and its trace. The edge creates it, and a
 * core in the same process adds to it. A core in another process creates one itself.
 */
export class RequestTelemetry {
  /** The client's own id of the request, which is sent upstream unchanged. */
  clientRequestId: string | undefined;
  /** The client's W3C `traceparent`. */
  traceparent: string | undefined;
  trace: RequestTrace | undefined;
  accountId: number | undefined;
  keyId: number | undefined;
  /** The listed id of the model; undefined until the catalogue has found it. */
  model: string | undefined;
  /** The largest amount that was held; undefined: the request was not admitted. */
  heldNanoUsd: bigint | undefined;
  /** The route of the last attempt. */
  route: TelemetryRoute | undefined;
  /** Why the route was chosen; undefined if there was only one. */
  routeReason: RouteReason | undefined;
  attempts = 0;
  upstreamRequestId: string | undefined;
  /** The provider's message about the last failure, without secrets and without content of the request. */
  upstreamMessage: string | undefined;
  settled: SettledFacts | undefined;
  /** Set by the core if the bodies of the request are stored. */
  bodies: AnswerTap | undefined;
  /** Set by an edge that passes its answers to `bodies`. */
  rendersAnswer = false;

  /** The id of the trace that the request belongs to, in hexadecimal; undefined: none. */
  get traceId(): string | undefined {
    return this.trace?.traceId ?? this.traceparent?.slice(3, 35);
  }

  /** Notes a held amount; the largest one counts. */
  holds(nanoUsd: bigint): void {
    if (this.heldNanoUsd === undefined || nanoUsd > this.heldNanoUsd) this.heldNanoUsd = nanoUsd;
  }

  /** An attempt has begun at a route. */
  attemptBegan(
    route: TelemetryRoute,
    attempt: number,
    reason: RouteReason | undefined,
    operation: Operation = 'chat',
  ): void {
    this.route = route;
    this.routeReason = reason;
    this.attempts = attempt;
    this.upstreamRequestId = undefined;
    this.upstreamMessage = undefined;
    this.trace?.attemptBegan(route, attempt, reason, operation);
  }

  /** Returns the headers to send upstream in addition to the provider's, as a list of alternating names and values; undefined: none. */
  get outgoingHeaders(): readonly string[] | undefined {
    const traceparent = this.trace?.traceparent ?? this.traceparent;
    if (traceparent === undefined && this.clientRequestId === undefined) return undefined;
    const headers: string[] = [];
    if (this.clientRequestId !== undefined) headers.push('x-request-id', this.clientRequestId);
    if (traceparent !== undefined) headers.push('traceparent', traceparent);
    return headers;
  }

  /** The request was encoded for the provider's protocol. */
  translated(protocol: string, durationMs: number): void {
    this.trace?.translated(protocol, durationMs);
  }

  /** The upstream has begun to answer. `upstreamRequestId`: its id of the request, if it gave one. */
  answered(upstreamRequestId: string | undefined): void {
    this.upstreamRequestId = upstreamRequestId;
  }

  /** The attempt has ended. `message`: the provider's message about the failure, without secrets and content. */
  attemptEnded(end: AttemptEnd, message: string | undefined): void {
    this.upstreamMessage = message;
    this.trace?.attemptEnded(this, end);
  }

  /** The request is about to be admitted. */
  admissionBegan(admission: { readonly accountId: number; readonly keyId: number; readonly model: string }): void {
    this.accountId = admission.accountId;
    this.keyId = admission.keyId;
    this.model = admission.model;
    this.trace?.admissionBegan();
  }

  /** The request was admitted with `heldNanoUsd`, or refused with `code`. */
  admissionEnded(heldNanoUsd: bigint | undefined, code?: string): void {
    if (heldNanoUsd !== undefined) this.holds(heldNanoUsd);
    this.trace?.admissionEnded(this, code);
  }

  /** Called when the request has been charged; undefined: nothing is charged, and there is no record. */
  settleEnded(settled: SettledFacts | undefined): void {
    this.settled = settled;
    this.trace?.settleEnded(settled);
  }
}

/** Matches version, trace id, parent id and flags of W3C Trace Context. An id of only zeros is invalid. */
const traceparentPattern = /^(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}/;
const clientIdPattern = /^[\x21-\x7e](?:[\x20-\x7e]{0,254}[\x21-\x7e])?$/;

/** Returns a `traceparent` that can be sent on; undefined if it is malformed. Source: W3C Trace Context, section 3.2. */
export function readTraceparent(header: string | readonly string[] | undefined): string | undefined {
  if (typeof header !== 'string' || !traceparentPattern.test(header)) return undefined;
  // Version 00 ends with the flags. Of later versions only the fields of version 00 are used.
  return header.length === 55 || !header.startsWith('00') ? `00${header.slice(2, 55)}` : undefined;
}

/** Returns a client's request id if it can be sent on (printable ASCII, at most 256 characters), else undefined. */
export function readClientRequestId(header: string | readonly string[] | undefined): string | undefined {
  return typeof header === 'string' && clientIdPattern.test(header) ? header : undefined;
}
