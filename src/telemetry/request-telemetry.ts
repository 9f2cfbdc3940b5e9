import type { TokenCounts } from './metrics.ts';

/** A route as logs, metrics and traces name it. */
export interface TelemetryRoute {
  /** The provider's name. */
  readonly provider: string;
  /** The provider's own name of the model. */
  readonly model: string;
}

/** Why a request took the route it took. */
export type RouteReason =
  /** The order of the configuration: priority, within one by weight. */
  | 'priority'
  /** The lowest cost among the routes. */
  | 'cheapest'
  /** The fastest first event among the routes. */
  | 'fastest'
  /** The route was chosen to measure its speed, which was not known well enough. */
  | 'measured'
  /** The conversation has been on this route before. */
  | 'conversation'
  /** An earlier route failed. */
  | 'fallback';

/**
 * The operation of a request, in the terms of OpenTelemetry's conventions: text, images, vectors. They have no term
 * for reranking.
 */
export type Operation = 'chat' | 'generate_content' | 'embeddings' | 'rerank';

/** The end of an attempt, for a trace. */
export interface AttemptEnd {
  /** `completed`, or what ended it. */
  readonly result: string;
  readonly status?: number | undefined;
  /** Until its first event; absent if none came. In ms. */
  readonly firstEventMs?: number | undefined;
}

/** The cost of a request. */
export interface SettledFacts {
  /** `completed`, `incomplete`, `client_aborted`, `upstream_failed`. */
  readonly state: string;
  readonly tokens: TokenCounts;
  readonly costNanoUsd: bigint;
  /** The provider's charge to the operator; undefined: unknown. */
  readonly providerCostNanoUsd: bigint | undefined;
}

/** Receives the client's answer, to be kept. */
export interface AnswerTap {
  /** Takes a piece of the answer's body, in order. */
  answered(text: string): void;
  /** The client has its answer, or has left. */
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
  /** Why the answer ended; undefined: it did not, or it generated nothing. */
  readonly finish: string | undefined;
}

/** The trace of one request; every method is called at the moment it describes. Made only if traces are switched on. */
export interface RequestTrace {
  /** Undefined: only metrics are made. */
  readonly traceId: string | undefined;
  admissionBegan(): void;
  admissionEnded(telemetry: RequestTelemetry, code: string | undefined): void;
  attemptBegan(route: TelemetryRoute, attempt: number, reason: RouteReason | undefined, operation: Operation): void;
  /** The request was encoded for the provider's protocol, which took this long. In ms. */
  translated(protocol: string, durationMs: number): void;
  attemptEnded(telemetry: RequestTelemetry, end: AttemptEnd): void;
  settleBegan(): void;
  settleEnded(settled: SettledFacts | undefined): void;
  /** The request was answered: nothing follows. */
  ended(telemetry: RequestTelemetry, end: RequestEnd): void;
  /** The W3C `traceparent` that names the attempt; undefined: only metrics are made. */
  readonly traceparent: string | undefined;
}

/**
 * Collects the facts of one request on its way through the gateway, for its log line, its metrics and its trace. The edge creates it, and
 * the core in the same process adds to it; a core in another process has its own.
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
  /** The highest hold; undefined: nothing was admitted. */
  heldNanoUsd: bigint | undefined;
  /** The route of the last attempt. */
  route: TelemetryRoute | undefined;
  /** Undefined: there was no choice. */
  routeReason: RouteReason | undefined;
  attempts = 0;
  upstreamRequestId: string | undefined;
  /** The provider's message about the last failure, without secrets and without anything of the request. */
  upstreamMessage: string | undefined;
  settled: SettledFacts | undefined;
  /** Set by the core if the request's bodies are kept. */
  bodies: AnswerTap | undefined;
  /** Set by an edge that records its answers in `bodies`. */
  rendersAnswer = false;

  /** The trace that the request belongs to, in hexadecimal; undefined: none. */
  get traceId(): string | undefined {
    return this.trace?.traceId ?? this.traceparent?.slice(3, 35);
  }

  /** Remembers a hold; the highest counts. */
  holds(nanoUsd: bigint): void {
    if (this.heldNanoUsd === undefined || nanoUsd > this.heldNanoUsd) this.heldNanoUsd = nanoUsd;
  }

  /** An attempt goes to a route. */
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

  /** Returns the headers to send upstream besides the provider's own, names and values in turn; undefined: none. */
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

  /** The upstream has begun to answer, with an id of its own if it gave one. */
  answered(upstreamRequestId: string | undefined): void {
    this.upstreamRequestId = upstreamRequestId;
  }

  /** The attempt has ended. `message`: the provider's message about its failure, fit for a log. */
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

  /** It was admitted, with this hold, or refused with a code. */
  admissionEnded(heldNanoUsd: bigint | undefined, code?: string): void {
    if (heldNanoUsd !== undefined) this.holds(heldNanoUsd);
    this.trace?.admissionEnded(this, code);
  }

  /** Called when its usage is charged; undefined: nothing is charged, and it leaves no record. */
  settleEnded(settled: SettledFacts | undefined): void {
    this.settled = settled;
    this.trace?.settleEnded(settled);
  }
}

/** The version, trace id, parent id and flags of W3C Trace Context; all zeros are not an id. */
const traceparentPattern = /^(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}/;
const clientIdPattern = /^[\x21-\x7e](?:[\x20-\x7e]{0,254}[\x21-\x7e])?$/;

/** Returns a `traceparent` that can be sent on; undefined if it is malformed. Source: W3C Trace Context, section 3.2. */
export function readTraceparent(header: string | readonly string[] | undefined): string | undefined {
  if (typeof header !== 'string' || !traceparentPattern.test(header)) return undefined;
  // Version 00 has nothing behind the flags; of later ones only what version 00 has is known.
  return header.length === 55 || !header.startsWith('00') ? `00${header.slice(2, 55)}` : undefined;
}

/** Returns a client's request id that can be sent on: printable ASCII, at most 256 characters; undefined otherwise. */
export function readClientRequestId(header: string | readonly string[] | undefined): string | undefined {
  return typeof header === 'string' && clientIdPattern.test(header) ? header : undefined;
}
