import type { GenerationEvent } from '../gen/tollgate/v1/event_pb.ts';
import type { GenerateRequest } from '../gen/tollgate/v1/request_pb.ts';
import type { FailureMeaning } from './failure-meaning.ts';
import type { Hold } from './hold.ts';

/** Observes an attempt for its trace. The events of the answer go to the receiver, not to this. */
export interface AttemptWatch {
  /** Headers to send in addition to the provider's, as a list of alternating names and values; undefined: none. */
  readonly outgoingHeaders: readonly string[] | undefined;
  /** Called when the request was encoded for the provider's protocol. `durationMs`: how long that took. */
  translated(protocol: string, durationMs: number): void;
  /**
   * Called when the response headers have arrived. `upstreamRequestId`: the provider's id of the request; undefined if it sent none.
   */
  answered(upstreamRequestId: string | undefined): void;
  /** Called when the provider has refused a key, before the same request is sent again with the next one; absent: nobody counts it. */
  readonly keyRefused?: (failure: UpstreamFailure) => void;
}

/** Gets copies of the bytes of an attempt. */
export interface WireTap {
  /** Called with each piece of the request's body, in order, when it is sent first. */
  sent(bytes: Uint8Array): void;
  /** Called with each piece of the answer's body, in order. */
  received(bytes: Uint8Array): void;
}

/** One attempt of a generation at one upstream. */
export interface UpstreamCall {
  /** The hold of the request: nothing may be sent upstream without one. */
  readonly hold: Hold;
  /** The checked request; `model` is the listed id, `serviceTier` the resolved tier. */
  readonly request: GenerateRequest;
  /** The account that pays; absent: the gateway itself makes the request. */
  readonly accountId?: number;
  /** The tools with a price per call that the provider may run, because the hold covers the price; absent: none. */
  readonly paidTools?: readonly string[] | undefined;
  /** The upstream's name for the model. */
  readonly model: string;
  /** The output limit to send: the client's, lowered to the model's maximum and to what the funds pay for; undefined: none is sent. */
  readonly maxOutputTokens: number | undefined;
  /** The model's maximum, for protocols that require a limit; absent: it is unknown. */
  readonly modelOutputTokens?: number | undefined;
  /** True if the model reasons; absent: it is unknown. */
  readonly modelReasons?: boolean | undefined;
  /** The number of the attempt within the request, over all routes, from 1. */
  readonly attempt: number;
  /** True if the answer is needed only at its end, so that it is requested without streaming if the upstream can do that. */
  readonly whole: boolean;
  /** Absent: the attempt is not traced. */
  readonly watch?: AttemptWatch | undefined;
  /** Absent: the bytes are not kept. */
  readonly tap?: WireTap | undefined;
}

/** Receives an upstream's answer to one attempt. Not called before `Upstream.generate` has returned. */
export interface UpstreamReceiver {
  /** Receives the events that one chunk of the answer has completed; the list is never empty. `started` comes first, `completed` last. Must not throw. May cancel or pause the attempt. */
  events(events: GenerationEvent[]): void;
  /**
   * Called last, once, when the attempt has ended. `failure` absent: `completed` has come. Otherwise it is an `UpstreamFailure` (also if the answer ended too early), a `GatewayError` if this upstream's protocol can't express the request, or any other error, which is a defect. Not called after the attempt was cancelled.
   */
  end(failure?: Error): void;
}

/** A running attempt. Every method may be called at any time and more than once. */
export interface RunningAttempt {
  /** Cancels the attempt: the upstream stops within a second, and the receiver is no longer called. */
  cancel(): void;
  /** Pauses the answer: the upstream's connection is not read, and the idle timeout does not run. */
  pause(): void;
  /** Continues after a pause. */
  resume(): void;
}

/** The state of one of a provider's keys. */
export interface KeyHealth {
  /** The number of the key in the configuration, from 1. */
  readonly number: number;
  /** `resting`: the provider refused the key, and no request uses it for a while. `probing`: after that time, one request tries it. */
  readonly state: 'working' | 'resting' | 'probing';
  /** Until when it is `resting`, in ms since 1970 UTC; absent: it is not. */
  readonly restsUntilMs?: number;
  /** True if the key was refused, and has not worked since, though it is used if it is the last one. */
  readonly isRefused: boolean;
  /** How many times the key was refused since the gateway started. */
  readonly refusals: number;
  /** The last refusal; absent: none. `message`: the provider's message, without what must not be logged. */
  readonly last?: { readonly status: number; readonly atMs: number; readonly message: string | undefined };
}

/** Why the state of a key is reported: it was refused, or works again after a refusal. */
export type KeyChange = 'refused' | 'works';

/** A request that waits for a key. */
export interface KeyWaiter {
  /** Identifies the request: its hold. */
  readonly keyUser: object;
  /** Whom it is for (the account); owners are served in rotation. */
  readonly owner: unknown;
  /** How long it waits at most, in ms. */
  readonly waitMs: number;
  readonly signal: AbortSignal;
}

/** The state of an upstream's keys. */
export interface KeysHealth {
  /** Returns the time until a request may use a key for the provider's model, in ms; 0: it may use one now. The request has not been refused, and waits behind those that wait already. */
  restMs(model: string): number;
  /** Returns whether a request whose turn has come may use a key for the provider's model now. If it is the one that tries a key after its rest, no other request gets that key until this one has used it, or `release` is called. `keyUser`: its hold. True also if all keys were refused to it: it then gets the last refusal. */
  reserve(model: string, keyUser: object): boolean;
  /** Lets other requests try the keys that this request has reserved. */
  release(model: string, keyUser: object): void;
  /** Waits until a request may use a key for the provider's model. Returns false, as soon as that is known, if the wait would be too long. Rejects with the signal's reason if it is aborted. */
  whenReady(model: string, waiter: KeyWaiter): Promise<boolean>;
  /** Returns the state of each key, in the configured order. */
  health(): KeyHealth[];
}

/** Generates answers: a provider over HTTP, or the simulator (built-in models). */
export interface Upstream {
  /**
   * Begins an attempt, and pushes its answer to `receiver`. `usage` of `completed` is set only if the upstream reported it. Items may interleave; the core puts them in order. Fields that only the gateway knows (request id, cost, limits) are empty.
   */
  generate(call: UpstreamCall, receiver: UpstreamReceiver): RunningAttempt;
  /**
   * True for a provider, which has to be paid for an answer even if it was abandoned before anything arrived. Absent: the upstream runs in this process, and only what it delivered is charged.
   */
  readonly isRemote?: boolean;
  /**
   * True if its answers may end with a pause (`FinishReason.PAUSE`), after which it must be called again to continue; absent: they never do.
   */
  readonly mayPause?: boolean;
  /** Returns whether a model's output limit counts only what clients see, not its reasoning; absent: it counts both. */
  limitIsVisible?(model: string): boolean;
  /** Returns how many upstream calls a request needs, each with the whole input: more than one if it requests several choices and the upstream returns one choice per call. Absent: always one. */
  callsFor?(request: GenerateRequest, model: string): number;
  /** The state of its keys; absent: it has no keys. */
  readonly keys?: KeysHealth;
  /** Returns a request's input tokens as the upstream counts them. Absent, or undefined: it can't be queried for that. Throws or rejects if the query fails. */
  countTokens?(request: GenerateRequest, model: string, signal: AbortSignal): Promise<number> | undefined;
}

/** How an attempt at an upstream failed. Retries, the circuit breaker and the client's error depend on it. */
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
  /** The HTTP status of the answer, or the one that its error event names; absent: there is none. */
  readonly status?: number;
  /** The upstream's message, which the client may get. It never contains the upstream's URL, headers or credentials. */
  readonly message?: string;
  /** The same message for the log: without secrets, and without anything of the request. */
  readonly logMessage?: string;
  /** The field that the error names. */
  readonly param?: string;
  /** The error code in `error.details` of the Messages interface, which its clients read: letters, digits and underscores. */
  readonly detailCode?: string;
  /** The meaning of the error, as its body says; absent: its status decides (`readMeaning`). */
  readonly meaning?: FailureMeaning;
  /** The wait that the upstream requests (`retry-after`), in ms. */
  readonly retryAfterMs?: number;
  /** True if the request itself asked for this failure with a `!sim` line; it does not count for the circuit breaker. */
  readonly requested?: boolean;
  /** The error behind the failure, for the log only. */
  readonly cause?: unknown;
}

/** The failure of an attempt at an upstream. The core decides what follows; clients never get this error itself. */
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
