import type { GatewayError } from '../errors/gateway-error.ts';
import type { Protocol } from '../gen/tollgate/v1/content_pb.ts';
import type { GenerationEvent } from '../gen/tollgate/v1/event_pb.ts';
import type { GenerateRequest } from '../gen/tollgate/v1/request_pb.ts';
import type { SseMessage } from '../lib/sse.ts';
import type { Dialect } from './dialect.ts';
import type { ErrorFacts } from './upstream-error.ts';

export type { SseMessage } from '../lib/sse.ts';

/** A JSON value, as `JSON.parse` makes it. */
export type Json = string | number | boolean | null | Json[] | JsonObject;
/** A JSON object. */
export type JsonObject = { [member: string]: Json };

/** A request body as the edge read it. */
export interface ReceivedRequest {
  /** The parsed body: any JSON value. */
  readonly body: unknown;
  /** The bytes it was parsed from. */
  readonly raw: Uint8Array;
  /** Headers by lower-case name; a codec reads only those of its protocol. */
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
}

/** A decoded request, with what is needed to render its answer. */
export interface DecodedRequest {
  readonly request: GenerateRequest;
  /** True if the client requested a stream. */
  readonly stream: boolean;
  /** True if the client wants usage in the stream (Chat's `stream_options.include_usage`), or if its protocol always has it. */
  readonly includeUsage: boolean;
  /** True if the client uses the deprecated form of tool calls (Chat's `functions`), and gets its answer in that form. */
  readonly legacyFunctions?: true;
  /**
   * True if the client understands Anthropic's stop reasons for refusals and full contexts (a Messages client that sends `anthropic-version`).
   */
  readonly ownStopReasons?: true;
  /** True if the client asked to see thoughts (Gemini's `includeThoughts`); its protocol hides them otherwise. */
  readonly showsThoughts?: true;
}

/** Renders the events of one stream as SSE frames. Every method returns complete frames, joined, with their blank lines; '' if there are none. */
export interface StreamRenderer {
  /** Returns the frames of the next event. */
  push(event: GenerationEvent): string;
  /** Returns the frames that close a stream after `completed` (Chat: `[DONE]`). Throws if `completed` never came. */
  end(): string;
  /** Returns the frames that report to a client of this protocol that its stream failed. They are the last. */
  fail(error: GatewayError, requestId: string): string;
  /** A frame that keeps a silent stream alive; it may be sent between any two frames and before the first. */
  readonly keepAlive: string;
}

/** The client's side of a protocol: pure functions, no I/O, no clock. */
export interface ClientCodec {
  readonly protocol: Protocol;
  /** Decodes a request. Throws `GatewayError` `validation_error` with `param` and `violations`, which name the client's fields. */
  decodeRequest(received: ReceivedRequest): DecodedRequest;
  renderStream(decoded: DecodedRequest): StreamRenderer;
  /** Renders all events of a generation, `started` to `completed`, as the whole answer. */
  renderWhole(events: readonly GenerationEvent[], decoded: DecodedRequest): JsonObject;
  /** Returns the warnings about content of an answer that the protocol has no place for; a stream has them as comments. Absent: it has a place for all. */
  listLost?(events: readonly GenerationEvent[]): readonly string[];
}

/** The request for an upstream of the protocol. */
export interface EncodedRequest {
  readonly body: JsonObject;
  /** The fields that were dropped because the protocol can't express them, by the client's names ("top_k"). */
  readonly dropped: readonly string[];
  /** Replaces the placeholders in the serialized body with their content. Absent if the body has none. */
  readonly restore?: (json: string) => string;
  /** The members that the body asks for and that cost extra without a price, if the provider is sent them all the same; absent: none. */
  readonly unpriced?: readonly string[];
}

/** The request, and the route's changes to it. */
export interface EncodeInput {
  readonly request: GenerateRequest;
  /** The upstream's own name of the model. */
  readonly model: string;
  readonly maxOutputTokens: number | undefined;
  /** The model's maximum of output tokens, for protocols that require a limit; absent if unknown. */
  readonly modelOutputTokens?: number | undefined;
  /** True if the model reasons, whether that was requested or not; absent: it is unknown. */
  readonly modelReasons?: boolean | undefined;
  /** True to request a stream. */
  readonly stream: boolean;
  /** How the upstream deviates from the protocol; absent: not at all. */
  readonly dialect?: Dialect;
  /** The provider's name in the configuration: only blobs that it made are sent to it. Absent if it is not known which blobs the upstream can read. */
  readonly provider?: string;
}

/** Converts the SSE messages of a stream to events. It contains all state of the stream. Lists of events are passed in, so that not every message of every stream makes one. */
export interface EventParser {
  /** Adds the events of a message. If it throws, the events that it has added are not valid. */
  push(message: SseMessage, events: GenerationEvent[]): void;
  /** Ends the stream and adds the last events. Throws `UpstreamFailure` `truncated` if the stream's last event did not come. */
  end(events: GenerationEvent[]): void;
}

/** The upstream's side of a protocol: pure functions, no I/O, no clock. */
export interface UpstreamCodec {
  readonly protocol: Protocol;
  /** Encodes a request. The same input gives the same bytes; a request of the same protocol is the client's JSON, patched. Throws `GatewayError` `unsupported_parameter`. */
  encodeRequest(input: EncodeInput): EncodedRequest;
  /** Returns the parser of a stream. */
  parseStream(provider: string): EventParser;
  /** Parses a whole answer into the same events. Throws `UpstreamFailure` `malformed`. */
  parseWhole(body: Json, provider: string): GenerationEvent[];
  /** Parses an error body; the result has `status` and `retryAfterMs` if the body is more specific than the response head. Never throws. */
  parseError(status: number, body: string): ErrorFacts;
}
