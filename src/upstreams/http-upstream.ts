import type { UpstreamQuirk } from '../codecs/codec.ts';
import { GatewayError } from '../errors/gateway-error.ts';
import { type GenerateRequest, OutputFormatType } from '../gen/tollgate/v1/request_pb.ts';
import type { RunningAttempt, Upstream, UpstreamCall, UpstreamReceiver } from '../generation/upstream.ts';
import { AnswerTool } from './answer-tool.ts';
import { asError } from './as-error.ts';
import { CustomCalls } from './custom-calls.ts';
import { FanOut } from './fan-out.ts';
import { type AttemptTools, type EncodedCall, type EventRestorer, HttpAttempt } from './http-attempt.ts';
import { HttpTarget, type HttpTargetOptions } from './http-target.ts';
import { ToolNames } from './tool-names.ts';
import type { UpstreamProtocol } from './upstream-protocol.ts';

/** An upstream of the configuration. */
export interface HttpUpstreamOptions extends HttpTargetOptions {
  /** The provider's name in the configuration. */
  readonly name: string;
  readonly protocol: UpstreamProtocol;
  /** What it does otherwise than its protocol says; absent: nothing. */
  readonly quirks?: readonly UpstreamQuirk[];
  /** The most bytes of one event, or of an answer that is not streamed. */
  readonly eventBytesMax: number;
}

/** What is the same for all calls of a model that want their answers in the same way. */
interface ModelPlan {
  readonly path: string;
  /** By the index of the key. */
  readonly headers: readonly string[][];
}

/** The client of one provider, with connections of its own. It folds nothing: an upstream that answers whole gives one batch. */
export class HttpProvider implements Upstream {
  readonly mayPause: boolean;
  readonly #protocol: UpstreamProtocol;
  readonly #quirks: readonly UpstreamQuirk[];
  readonly #tools: AttemptTools;
  /** Made at first use: streamed and whole answers, by the upstream's name of the model. */
  readonly #plans = { streamed: new Map<string, ModelPlan>(), whole: new Map<string, ModelPlan>() };

  constructor(options: HttpUpstreamOptions) {
    const { protocol, name, eventBytesMax, quirks = [] } = options;
    this.mayPause = protocol.mayPause === true;
    this.#protocol = protocol;
    this.#quirks = quirks;
    this.#tools = {
      target: new HttpTarget(options, protocol.authentication),
      reading: { codec: protocol.codec, provider: name, eventBytesMax },
    };
  }

  generate(call: UpstreamCall, receiver: UpstreamReceiver): RunningAttempt {
    const isSeveral = this.callsFor(call.request, call.model) > 1;
    return isSeveral ? new FanOut(call, receiver, (one, to) => this.#attempt(one, to)) : this.#attempt(call, receiver);
  }

  callsFor({ candidates = 1 }: GenerateRequest, model: string): number {
    if (candidates === 1) return 1;
    return this.#quirks.includes('one_answer') || this.#protocol.givesOne?.(model) === true ? candidates : 1;
  }

  /** Lets running calls end, then closes the connections. A call that still follows has connections of its own, which close after it. */
  async close(): Promise<void> {
    await this.#tools.target.close();
  }

  #attempt(call: UpstreamCall, receiver: UpstreamReceiver): RunningAttempt {
    let encoded: EncodedCall;
    try {
      encoded = this.#encode(call);
    } catch (thrown) {
      return failedAttempt(asError(thrown), receiver);
    }
    return new HttpAttempt(this.#tools, call, encoded, receiver);
  }

  #encode(call: UpstreamCall): EncodedCall {
    const { model, maxOutputTokens, modelOutputTokens } = call;
    const { codec, provider } = this.#tools.reading;
    const isOwn = call.request.source?.protocol === codec.protocol;
    const names = isOwn ? undefined : new ToolNames(call.request, this.#protocol.toolName);
    const request = names?.request ?? call.request;
    const { body, dropped } = codec.encodeRequest({
      request,
      model,
      maxOutputTokens,
      ...(modelOutputTokens === undefined ? {} : { modelOutputTokens }),
      stream: !call.whole,
      provider,
      quirks: this.#quirks,
    });
    const [param] = dropped;
    if (param !== undefined && request.strict) {
      throw new GatewayError('unsupported_parameter', `The model’s provider does not know ${dropped.join(', ')}.`, {
        param,
      });
    }
    const { path, headers } = this.#plan(model, call.whole);
    const own = isOwn ? (call.request.source?.headers ?? {}) : {};
    return {
      path,
      headers: Object.keys(own).length === 0 ? headers : this.#headers(call.whole, own),
      body: Buffer.from(JSON.stringify(body)),
      restorers: this.#restorers(call.request, names),
      warnings: param === undefined ? [] : [`dropped=${dropped.join(',')}`],
    };
  }

  #plan(model: string, whole: boolean): ModelPlan {
    const plans = whole ? this.#plans.whole : this.#plans.streamed;
    let plan = plans.get(model);
    if (plan === undefined) {
      plan = { path: this.#tools.target.path(this.#protocol.path(model, whole)), headers: this.#headers(whole, {}) };
      plans.set(model, plan);
    }
    return plan;
  }

  /** `own`: the headers of the protocol that the client sent. */
  #headers(whole: boolean, own: Readonly<Record<string, string>>): string[][] {
    return this.#tools.target.headers({
      defaults: {
        accept: whole ? 'application/json' : 'text/event-stream, application/json',
        'user-agent': 'tollgate',
        ...this.#protocol.headers,
        ...own,
      },
      contentType: 'application/json',
      joined: this.#protocol.joinedHeader,
    });
  }

  /** Returns what undoes the words in which the codec said a request that the protocol has no words for. */
  #restorers(request: GenerateRequest, names: ToolNames | undefined): EventRestorer[] {
    const { lacksCustomTools, answerTool } = this.#protocol;
    const restorers: EventRestorer[] = [];
    if (names !== undefined && names.request !== request) restorers.push(names);
    if (lacksCustomTools === true && request.tools.some(({ tool }) => tool.case === 'custom')) {
      restorers.push(new CustomCalls(request));
    }
    if (answerTool !== undefined && request.outputFormat?.type === OutputFormatType.JSON_SCHEMA) {
      restorers.push(new AnswerTool(answerTool));
    }
    return restorers;
  }
}

/** Returns the attempt of a call that can't be sent. */
function failedAttempt(failure: Error, receiver: UpstreamReceiver): RunningAttempt {
  let isCancelled = false;
  queueMicrotask(() => {
    if (!isCancelled) receiver.end(failure);
  });
  const ignore = (): void => undefined;
  return {
    cancel: () => {
      isCancelled = true;
    },
    pause: ignore,
    resume: ignore,
  };
}
