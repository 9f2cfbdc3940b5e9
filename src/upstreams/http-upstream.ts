import type { Dispatcher } from 'undici';
import type { UpstreamCodec, UpstreamQuirk } from '../codecs/codec.ts';
import { GatewayError } from '../errors/gateway-error.ts';
import type { GenerationEvent } from '../gen/tollgate/v1/event_pb.ts';
import { type Upstream, type UpstreamCall, UpstreamFailure } from '../generation/upstream.ts';
import { type GenerateRequest, OutputFormatType } from '../gen/tollgate/v1/request_pb.ts';
import type { Clock } from '../lib/clock.ts';
import type { UpstreamTimeouts } from './answer-deadlines.ts';
import { AnswerReader } from './answer-reader.ts';
import { AnswerTool } from './answer-tool.ts';
import { type Authentication, authentications } from './authentication.ts';
import { CustomCalls } from './custom-calls.ts';
import { openConnections, type ProxySettings } from './connections.ts';
import { cleanFailure, statusFailure } from './error-answer.ts';
import { fanOut } from './fan-out.ts';
import type { HttpRequest, ResponseHead } from './http-exchange.ts';
import { KeyRing, type RevealableKey } from './key-ring.ts';
import { type CleanMessage, messageCleaner } from './message-cleaner.ts';
import { pathBelow } from './path-below.ts';
import { ToolNames } from './tool-names.ts';
import { UpstreamLine } from './upstream-line.ts';

/** What is the same for all upstreams of a wire protocol. */
export interface UpstreamProtocol {
  readonly codec: UpstreamCodec;
  readonly authentication: Authentication;
  /** What follows the base URL for a model, query included. */
  path(model: string): string;
  /** The names of tools that it takes; others are replaced on the way there and back. */
  readonly toolName: RegExp;
  /** Free-form tools are sent as functions with one string, `input`; their calls are restored. */
  readonly lacksCustomTools?: true;
  /** The tool whose call is the answer, where the codec sends a schema as one. Absent: it never does. */
  readonly answerTool?: string;
  /** Whether a model gives one answer to a request only: several are asked for by as many calls. Absent: every model gives several. */
  givesOne?(model: string): boolean;
  /** Sent with every call, lower-case names; what the client sent and what is configured wins. */
  readonly headers?: Readonly<Record<string, string>>;
  /** A header whose values of the client and of the configuration are both sent, joined. */
  readonly joinedHeader?: string;
}

/** An upstream of the configuration. */
export interface HttpUpstreamOptions {
  /** The provider's name in the configuration. */
  readonly name: string;
  readonly protocol: UpstreamProtocol;
  /** What it does otherwise than its protocol says; absent: nothing. */
  readonly quirks?: readonly UpstreamQuirk[];
  /** As the protocol's official client takes it. */
  readonly baseUrl: string;
  /** Used in rotation; empty: no credential is sent. */
  readonly keys: readonly RevealableKey[];
  /** Sent with every call, lower-case names; they win over what the gateway sends by itself, save a key. */
  readonly headers: Readonly<Record<string, RevealableKey>>;
  readonly timeouts: UpstreamTimeouts;
  /** The most bytes of one event, or of an answer that is not streamed. */
  readonly eventBytesMax: number;
  readonly proxy: ProxySettings;
  readonly clock: Clock;
}

/** An upstream with connections of its own. */
export interface HttpUpstream extends Upstream {
  /** Lets running calls end, then closes the connections. A call that still follows has connections of its own, which close after it. */
  close(): Promise<void>;
}

/**
 * The client of one provider. It always asks for a stream and folds nothing: an upstream that answers whole gives one batch.
 * Credentials travel in headers only, and no failure names one, nor an address.
 */
export class HttpProvider implements HttpUpstream {
  readonly #options: HttpUpstreamOptions;
  readonly #base: URL;
  /** Undefined while a closed one has no call. */
  #connections: Dispatcher | undefined;
  #running = 0;
  #closed = false;
  readonly #keys: KeyRing;
  readonly #clean: CleanMessage;
  readonly #configured: Readonly<Record<string, string>>;

  constructor(options: HttpUpstreamOptions) {
    this.#options = options;
    this.#base = new URL(options.baseUrl);
    this.#keys = new KeyRing(options.keys);
    this.#configured = Object.fromEntries(
      Object.entries(options.headers).map(([name, value]) => [name, value.reveal()] as const),
    );
    const secrets = [...options.keys.map(key => key.reveal()), ...Object.values(this.#configured)];
    this.#clean = messageCleaner({ secrets, baseUrl: options.baseUrl });
  }

  generate(call: UpstreamCall): AsyncGenerator<GenerationEvent[], void, undefined> {
    const isSeveral = this.callsFor(call.request, call.model) > 1;
    return isSeveral ? fanOut(call, one => this.#answer(one)) : this.#answer(call);
  }

  callsFor({ candidates = 1 }: GenerateRequest, model: string): number {
    const { protocol, quirks = [] } = this.#options;
    return quirks.includes('one_answer') || protocol.givesOne?.(model) === true ? candidates : 1;
  }

  async *#answer(call: UpstreamCall): AsyncGenerator<GenerationEvent[], void, undefined> {
    call.signal.throwIfAborted();
    const { protocol } = this.#options;
    const isOwn = call.request.source?.protocol === protocol.codec.protocol;
    const names = isOwn ? undefined : new ToolNames(call.request, protocol.toolName);
    const { body, warnings } = this.#encode({ ...call, request: names?.request ?? call.request });
    const line = new UpstreamLine(call, this.#options.timeouts);
    let reader: AnswerReader | undefined;
    this.#running += 1;
    try {
      reader = this.#readerOf(call, await this.#open(call, body, line));
      const restored = restorer(protocol, call.request);
      while (!reader.completed) {
        const batch = await line.next(reader);
        const { failure } = batch;
        const events = restored(names?.restored(batch.events) ?? batch.events);
        if (events.length > 0) {
          warn(events, warnings);
          yield events;
        }
        if (failure !== undefined) throw failure;
      }
    } catch (thrown) {
      throw thrown instanceof UpstreamFailure ? cleanFailure(thrown, this.#clean) : thrown;
    } finally {
      line.close(reader?.completed === true);
      this.#running -= 1;
      if (this.#closed && this.#running === 0) void this.#disconnect();
    }
  }

  async close(): Promise<void> {
    this.#closed = true;
    await this.#disconnect();
  }

  #connected(): Dispatcher {
    const { timeouts, proxy } = this.#options;
    this.#connections ??= openConnections({ origin: this.#base.origin, connectMs: timeouts.connectMs, proxy });
    return this.#connections;
  }

  async #disconnect(): Promise<void> {
    const connections = this.#connections;
    this.#connections = undefined;
    await connections?.close();
  }

  #encode({ request, model, maxOutputTokens, modelOutputTokens }: UpstreamCall): { body: string; warnings: string[] } {
    const { body, dropped } = this.#options.protocol.codec.encodeRequest({
      request,
      model,
      maxOutputTokens,
      ...(modelOutputTokens === undefined ? {} : { modelOutputTokens }),
      stream: true,
      provider: this.#options.name,
      quirks: this.#options.quirks ?? [],
    });
    const [param] = dropped;
    if (param === undefined) return { body: JSON.stringify(body), warnings: [] };
    if (request.strict) {
      throw new GatewayError('unsupported_parameter', `The model’s provider does not know ${dropped.join(', ')}.`, {
        param,
      });
    }
    return { body: JSON.stringify(body), warnings: [`dropped=${dropped.join(',')}`] };
  }

  /** The head of an answer that begins well. Goes through the keys while they are refused. */
  async #open(call: UpstreamCall, body: string, line: UpstreamLine): Promise<ResponseHead> {
    const { hold, model } = call;
    const { codec } = this.#options.protocol;
    for (;;) {
      const picked = this.#keys.pick(hold, model);
      if (picked === undefined) throw this.#keys.lastRefusal(hold) ?? new UpstreamFailure('status', { status: 401 });
      const head = await line.send(this.#connected(), this.#request(call, body, picked.key));
      if (head.status >= 200 && head.status < 300) return head;
      const tools = { codec, clean: this.#clean, clock: this.#options.clock };
      const failure = statusFailure(head, await line.errorBody(), tools);
      if (!this.#keys.learn(hold, model, { index: picked.index, failure })) throw failure;
    }
  }

  #request({ request, model }: UpstreamCall, body: string, key: RevealableKey | undefined): HttpRequest {
    const { protocol } = this.#options;
    const { source } = request;
    const own = source?.protocol === protocol.codec.protocol ? source.headers : {};
    const headers: Record<string, string> = {
      accept: 'text/event-stream, application/json',
      'user-agent': 'tollgate',
      ...protocol.headers,
      ...own,
      ...this.#configured,
      'content-type': 'application/json',
    };
    const joined = protocol.joinedHeader ?? '';
    const values = [own[joined], this.#configured[joined]].filter(value => value !== undefined);
    if (values.length > 1) headers[joined] = values.join(',');
    if (key !== undefined) {
      const [name, value] = authentications[protocol.authentication](key.reveal());
      headers[name] = value;
    }
    return { origin: this.#base.origin, path: pathBelow(this.#base, protocol.path(model)), headers, body };
  }

  #readerOf({ request }: UpstreamCall, { headers }: ResponseHead): AnswerReader {
    const { protocol, name, eventBytesMax } = this.#options;
    const type = headers['content-type'];
    return new AnswerReader({
      codec: protocol.codec,
      provider: name,
      eventBytesMax,
      contentType: typeof type === 'string' ? type : '',
      candidates: request.candidates ?? 1,
    });
  }
}

/** Undoes what the codec did to say a request in words that the protocol has. */
function restorer(
  { lacksCustomTools, answerTool }: UpstreamProtocol,
  request: GenerateRequest,
): (events: GenerationEvent[]) => GenerationEvent[] {
  const customCalls = lacksCustomTools === true ? new CustomCalls(request) : undefined;
  const isSchema = request.outputFormat?.type === OutputFormatType.JSON_SCHEMA;
  const answer = answerTool !== undefined && isSchema ? new AnswerTool(answerTool) : undefined;
  if (customCalls === undefined) return events => events;
  if (answer === undefined) return events => customCalls.restored(events);
  return events => answer.restored(customCalls.restored(events));
}

/** Tells the reader of the answer what was dropped for this upstream. */
function warn(events: readonly GenerationEvent[], warnings: readonly string[]): void {
  if (warnings.length === 0) return;
  for (const { event } of events) {
    if (event.case === 'started') event.value.warnings.push(...warnings);
  }
}
