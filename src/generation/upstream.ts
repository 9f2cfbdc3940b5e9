import type { GenerationEvent } from '../gen/tollgate/v1/event_pb.ts';
import type { GenerateRequest } from '../gen/tollgate/v1/request_pb.ts';
import type { Hold } from './hold.ts';

/** Observes an attempt. Its events go to the receiver instead. */
export interface AttemptWatch {
  /** Returns headers to send besides the provider's own, names and values in turn; undefined: none. */
  readonly outgoingHeaders: readonly string[] | undefined;
  /** Called when the request was encoded for the provider's protocol. `durationMs`: how long that took. */
  translated(protocol: string, durationMs: number): void;
  /**
   * Called when the head of the answer has come. `upstreamRequestId`: the provider's own id of the request, undefined if
   * there is none.
   */
  answered(upstreamRequestId: string | undefined): void;
}

/** Keeps the bytes of an attempt. */
export interface WireTap {
  /** The body of the request. */
  sent(body: Uint8Array): void;
  /** A piece of the answer's body, in order. */
  received(bytes: Uint8Array): void;
}

/** One attempt of a generation at one upstream. */
export interface UpstreamCall {
  /** Nothing goes upstream without a hold. */
  readonly hold: Hold;
  /** The checked request; `model` is the listed id, `serviceTier` the resolved tier. */
  readonly request: GenerateRequest;
  /** The account that pays; absent: the gateway itself. */
  readonly accountId?: number;
  /** Tools with a price per call that the hold covers, so that a provider may run them. Absent: none. */
  readonly paidTools?: readonly string[] | undefined;
  /** The upstream's own name of the model. */
  readonly model: string;
  /** The output limit to send: the client's, lowered to the model's maximum and to what the funds can pay. Undefined: send none. */
  readonly maxOutputTokens: number | undefined;
  /** The model's own maximum, for protocols that insist on a limit. Absent: it is not known. */
  readonly modelOutputTokens?: number | undefined;
  /** The number of the attempt within the request, over all routes, from 1. */
  readonly attempt: number;
  /** True if nothing of the answer is needed before its end: it is then requested without streaming, if the upstream can do that. */
  readonly whole: boolean;
  /** Absent: not observed. */
  readonly watch?: AttemptWatch | undefined;
  /** Absent: its bytes are not kept. */
  readonly tap?: WireTap | undefined;
}

/** Receives an upstream's answer to one attempt. Not called before `Upstream.generate` has returned. */
export interface UpstreamReceiver {
  /** Receives the events that became ready together; never an empty list. `started` comes first, `completed` last. It must not throw. It may cancel or pause the attempt. */
  events(events: GenerationEvent[]): void;
  /**
   * Ends the attempt; called once, last. Without a failure: `completed` has come. Otherwise an `UpstreamFailure`
   * (also if the answer ended without its terminator), a `GatewayError` for what this upstream's protocol can't express, or
   * a defect. Not called once the attempt is cancelled.
   */
  end(failure?: Error): void;
}

/** A running attempt. Every method may be called at any time and more than once. */
export interface RunningAttempt {
  /** Cancels the attempt: the upstream stops within a second, and the receiver is not called any more. */
  cancel(): void;
  /** Pauses: the upstream's connection is not read, and the idle timeout does not run. */
  pause(): void;
  /** Continues after a pause. */
  resume(): void;
}

/** The state of one of a provider's keys. */
export interface KeyHealth {
  /** Its place in the configuration, from 1. */
  readonly number: number;
  /** `resting`: it was refused, and no request uses it for a while. `probing`: one request tries it after its rest. */
  readonly state: 'working' | 'resting' | 'probing';
  /** When its rest ends, in ms since 1970 UTC; absent: it does not rest. */
  readonly restsUntilMs?: number;
  /** The number of refusals since the start. */
  readonly refusals: number;
  /** The last refusal; absent: none. `message`: the provider's message, fit for a log. */
  readonly last?: { readonly status: number; readonly atMs: number; readonly message: string | undefined };
}

/** The keys of an upstream that has some. */
export interface KeysHealth {
  /** True if one of them may be used now. */
  readonly isUsable: boolean;
  /** The time until one of them may be used, in ms; 0: now. */
  readonly restMs: number;
  /** Returns the state of each key, in the order of the configuration. */
  health(): KeyHealth[];
}

/** Generates answers: a provider over HTTP, or the built-in simulator. */
export interface Upstream {
  /**
   * Begins an attempt and pushes its answer. `usage` of `completed` is only there if the upstream reported it. Items may interleave; the core puts them in order. Fields that only
   * the gateway knows (request id, cost, limits) stay empty.
   */
  generate(call: UpstreamCall, receiver: UpstreamReceiver): RunningAttempt;
  /**
   * True if it runs elsewhere, at a cost: a whole answer arrives only at its end, and an abandoned one has still run. Absent: it runs here,
   * and has used only what it delivered.
   */
  readonly isRemote?: boolean;
  /**
   * True if its answers may end with a pause (`FinishReason.PAUSE`), after which it expects to be called again to continue. Absent: never.
   */
  readonly mayPause?: boolean;
  /** Returns how many calls a request takes, each with the whole input: more than one if it requests several choices and the upstream returns one per call. Absent: one. */
  callsFor?(request: GenerateRequest, model: string): number;
  /** Absent: it has no keys that could be refused. */
  readonly keys?: KeysHealth;
  /** Counts a request's input tokens as the upstream itself does. Absent, or undefined: it has no count. Throws or rejects if it fails. */
  countTokens?(request: GenerateRequest, model: string, signal: AbortSignal): Promise<number> | undefined;
}

/** How an attempt at an upstream failed; decides retries, the circuit breaker and the client's error. */
export type UpstreamFailureKind =
  | 'connect' // refused, reset or timed out before the request was taken
  | 'status' // answered with an error status
  | 'first_event_timeout'
  | 'idle_timeout'
  | 'total_timeout'
  | 'reported' // an error event inside the stream
  | 'truncated' // the stream ended without its terminator
  | 'oversized' // larger than an answer may be
  | 'malformed'; // violates the protocol

/** Facts about a failure. */
export interface UpstreamFailureFacts {
  /** The HTTP status, if the upstream answered with one or its error event names one. */
  readonly status?: number;
  /** The upstream's own message, which may reach the client; never its address, headers or credentials. */
  readonly message?: string;
  /** The same, fit for a log: without secrets and without anything of the request. */
  readonly logMessage?: string;
  /** The field that the error names. */
  readonly param?: string;
  /** The code in the details of its error (Messages), which clients of the same interface read; letters, digits and underscores. */
  readonly detailCode?: string;
  /** The upstream reports that the input is too long for the model. */
  readonly contextLengthExceeded?: boolean;
  /** The upstream rejects the request's content, whatever its status: no other attempt would succeed. */
  readonly blamesContent?: boolean;
  /** The model is still being loaded: the same request will succeed later. */
  readonly isLoading?: boolean;
  /**
   * It is about the operator's account with the provider (quota, credit): no other request with that key can succeed,
   * and clients do not see it.
   */
  readonly billing?: boolean;
  /** Its `retry-after`. */
  readonly retryAfterMs?: number;
  /** True if the request itself asked for this failure with a `!sim` line: it opens no circuit breaker. */
  readonly requested?: boolean;
  /** For the log only. */
  readonly cause?: unknown;
}

/** A failed attempt at an upstream. Not an answer to a caller: the core decides what follows. */
export class UpstreamFailure extends Error {
  override readonly name = 'UpstreamFailure';
  readonly kind: UpstreamFailureKind;
  readonly facts: UpstreamFailureFacts;

  constructor(kind: UpstreamFailureKind, facts: UpstreamFailureFacts = {}) {
    super(facts.message ?? `upstream failure: ${kind}`, facts.cause === undefined ? undefined : { cause: facts.cause });
    this.kind = kind;
    this.facts = facts;
  }
}
