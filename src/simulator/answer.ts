import { DeltaKind, FinishReason, type GenerationEvent } from '../gen/tollgate/v1/event_pb.ts';
import { ItemStatus } from '../gen/tollgate/v1/content_pb.ts';
import { Endpoint } from '../gen/tollgate/v1/request_pb.ts';
import {
  type FinishFacts,
  delta,
  finished,
  itemClosed,
  itemOpened,
  opaqueAdded,
  partClosed,
  partOpened,
} from '../generation/events.ts';
import type { TokenPiece, Tokenizer } from '../generation/tokens.ts';
import { UpstreamFailure } from '../generation/upstream.ts';
import { type PlannedCall, openedCall, openedMessage, openedPart, openedReasoning } from './items.ts';
import type { LogprobSource } from './logprobs.ts';
import { type AnswerStep, stall } from './pace.ts';
import { type SealKind, sealReasoning } from './signature.ts';
import type { RequestedFault, RequestedFinish } from './steering.ts';
import { untilStop } from './stop.ts';

/** The reasoning before the answer. */
export interface PlannedReasoning {
  readonly chunks: Iterable<string>;
  readonly tokensMax: number;
  /** How the reasoning is shown: its text, a summary, or not at all (then only the seal is sent). */
  readonly form: 'reasoning' | 'summary' | 'hidden';
  readonly seal: SealKind;
}

/** The text of an answer. */
export interface PlannedText {
  readonly chunks: Iterable<string>;
  readonly kind: 'text' | 'refusal';
  /** The exact number of tokens; undefined: all chunks. */
  readonly tokens?: number;
}

/** The plan of one choice. */
export interface ChoicePlan {
  readonly reasoning: PlannedReasoning | undefined;
  readonly text: PlannedText | undefined;
  readonly calls: readonly PlannedCall[];
  /** The finish reason that the steering line asks for; undefined: the natural one. */
  readonly finish: RequestedFinish | undefined;
}

/** The settings that all choices of an answer have in common. */
export interface AnswerSettings {
  readonly model: string;
  readonly endpoint: Endpoint;
  readonly tokenizer: Tokenizer;
  /** The most output tokens of a choice, and the finish reason at this limit. */
  readonly limit: number;
  readonly limitReason: FinishReason;
  readonly stop: readonly string[];
  readonly faults: readonly RequestedFault[];
  /** The prompt, if the answer must begin with it. */
  readonly echo?: string | undefined;
}

/** Output tokens of a tool call in addition to its name and arguments. */
const callFrameTokens = 3;

/** The finish reasons as an upstream would name them: Anthropic's on the Messages interface, OpenAI's on the others. */
const nativeWords: Readonly<Partial<Record<number, readonly [messages: string, others: string]>>> = {
  [FinishReason.STOP]: ['end_turn', 'stop'],
  [FinishReason.LENGTH]: ['max_tokens', 'length'],
  [FinishReason.TOOL_CALLS]: ['tool_use', 'tool_calls'],
  [FinishReason.REFUSAL]: ['refusal', 'content_filter'],
  [FinishReason.PAUSE]: ['pause_turn', 'pause_turn'],
  [FinishReason.CONTEXT_WINDOW]: ['model_context_window_exceeded', 'length'],
};

const orderedReasons = {
  stop: FinishReason.STOP,
  length: FinishReason.LENGTH,
  refusal: FinishReason.REFUSAL,
  context_window: FinishReason.CONTEXT_WINDOW,
  pause: FinishReason.PAUSE,
} as const satisfies Record<RequestedFinish, FinishReason>;

const refusalDetails = JSON.stringify({
  type: 'refusal',
  category: null,
  explanation: 'The built-in model refused, as the !sim line of the request says.',
});

/** Where a piece of text belongs. */
interface Target {
  readonly item: number;
  readonly kind: DeltaKind;
}

type Steps = Generator<AnswerStep | typeof stall, void, void>;

/** Makes the events of a choice from its plan, step by step, and counts the tokens. */
export class ChoiceWriter {
  /** The number of output tokens so far, including reasoning. */
  outputTokens = 0;
  reasoningTokens = 0;
  readonly #choice: number;
  readonly #settings: AnswerSettings;
  readonly #logprobs: LogprobSource | undefined;
  #items = 0;
  #textDeltas = 0;
  #isCut = false;
  #matchedStop: string | undefined;

  /** `logprobs`: undefined if none were requested. */
  constructor(choice: number, settings: AnswerSettings, logprobs: LogprobSource | undefined) {
    this.#choice = choice;
    this.#settings = settings;
    this.#logprobs = logprobs;
  }

  /** Yields the steps of a plan. Call it once. */
  *steps(plan: ChoicePlan): Steps {
    if (plan.reasoning !== undefined) yield* this.#reasoning(plan.reasoning);
    yield* this.#faults(0);
    if (plan.text !== undefined) yield* this.#text(plan.text);
    for (const call of plan.calls) if (!this.#isCut && this.#matchedStop === undefined) yield* this.#call(call);
    // A fault that is requested after more deltas than a short answer has happens at the end of the answer.
    yield* this.#faults(Infinity);
    yield this.#free(this.#end(plan));
  }

  get #room(): number {
    return Math.max(0, this.#settings.limit - this.outputTokens);
  }

  #free(event: GenerationEvent): AnswerStep {
    return { event, tokens: 0 };
  }

  #count(tokens: number): number {
    this.outputTokens += tokens;
    return tokens;
  }

  *#reasoning(planned: PlannedReasoning): Steps {
    const { form, seal } = planned;
    const tokensMax = Math.min(planned.tokensMax, Math.floor(this.#room / 2));
    if (tokensMax < 1) return;
    const item = this.#items++;
    const at = [item, 0] as const;
    const kind = form === 'summary' ? DeltaKind.SUMMARY : DeltaKind.REASONING;
    yield this.#free(itemOpened(this.#choice, item, openedReasoning()));
    yield this.#free(partOpened(this.#choice, at, openedPart(form === 'summary' ? 'summary' : 'reasoning')));
    let reasoning = '';
    for (const { text, tokens } of this.#atMost(planned.chunks, tokensMax)) {
      reasoning += text;
      this.reasoningTokens += this.#count(tokens);
      if (form !== 'hidden') yield { event: delta(this.#choice, at, { kind, text }), tokens };
    }
    yield this.#free(partClosed(this.#choice, at));
    yield this.#free(opaqueAdded(this.#choice, item, sealReasoning(seal, this.#settings.model, reasoning)));
    yield this.#free(itemClosed(this.#choice, item));
  }

  /** Yields as much of the chunks as fits into `tokensMax` tokens. */
  *#atMost(chunks: Iterable<string>, tokensMax: number): Generator<TokenPiece> {
    let left = tokensMax;
    for (const chunk of chunks) {
      for (const piece of this.#settings.tokenizer.pieces(chunk)) {
        if (piece.tokens > left) return;
        left -= piece.tokens;
        yield piece;
        if (left === 0) return;
      }
    }
  }

  *#text(planned: PlannedText): Steps {
    const kind = planned.kind === 'text' ? DeltaKind.TEXT : DeltaKind.REFUSAL;
    const target = { item: this.#items++, kind };
    const at = [target.item, 0] as const;
    yield this.#free(itemOpened(this.#choice, target.item, openedMessage()));
    yield this.#free(partOpened(this.#choice, at, openedPart(planned.kind)));
    const { echo } = this.#settings;
    if (echo !== undefined && kind === DeltaKind.TEXT) {
      yield this.#free(delta(this.#choice, at, { kind: DeltaKind.ECHO, text: echo }));
    }
    yield* this.#chunks(planned, target);
    yield this.#free(partClosed(this.#choice, at));
    yield this.#free(itemClosed(this.#choice, target.item, this.#status));
  }

  get #status(): ItemStatus {
    return this.#isCut ? ItemStatus.INCOMPLETE : ItemStatus.COMPLETED;
  }

  *#chunks({ chunks, tokens = Infinity }: PlannedText, target: Target): Steps {
    const shown = untilStop(chunks, this.#settings.stop);
    let left = tokens;
    while (left > 0) {
      const { done, value } = shown.next();
      if (done === true) {
        this.#matchedStop = value;
        return;
      }
      for (const piece of this.#settings.tokenizer.pieces(value)) {
        // If a code point of several tokens does not fit any more, full stops fill the rest.
        const fitting = piece.tokens > left ? { text: '.'.repeat(left), tokens: left } : piece;
        yield* this.#piece(fitting, target);
        left -= fitting.tokens;
        if (this.#isCut || left === 0) return;
      }
    }
  }

  *#piece({ text, tokens }: TokenPiece, target: Target): Steps {
    if (tokens > this.#room) {
      this.#isCut = true;
      return;
    }
    const { item, kind } = target;
    const logprobs = kind === DeltaKind.TEXT && this.#logprobs !== undefined ? [this.#logprobs.of(text)] : [];
    yield { event: delta(this.#choice, [item, 0], { kind, text, logprobs }), tokens: this.#count(tokens) };
    if (kind === DeltaKind.ARGUMENTS) return;
    this.#textDeltas += 1;
    yield* this.#faults(this.#textDeltas);
  }

  *#faults(deltas: number): Steps {
    for (const fault of this.#settings.faults) {
      if (fault.afterDeltas > deltas) continue;
      if (fault.kind === 'stall') yield stall;
      throw fault.kind === 'cut'
        ? new UpstreamFailure('truncated', {
            requested: true,
            message: 'The built-in model broke off, as the !sim line of the request says.',
          })
        : new UpstreamFailure('reported', {
            requested: true,
            message: 'The built-in model failed, as the !sim line of the request says.',
          });
    }
  }

  *#call(call: PlannedCall): Steps {
    const frame = this.#settings.tokenizer.count(call.name) + callFrameTokens;
    if (frame > this.#room) {
      this.#isCut = true;
      return;
    }
    const item = this.#items++;
    yield { event: itemOpened(this.#choice, item, openedCall(call)), tokens: this.#count(frame) };
    for (const piece of this.#settings.tokenizer.pieces(call.arguments)) {
      yield* this.#piece(piece, { item, kind: DeltaKind.ARGUMENTS });
      if (this.#isCut) break;
    }
    yield this.#free(itemClosed(this.#choice, item, this.#status));
  }

  #end(plan: ChoicePlan): GenerationEvent {
    if (this.#isCut) return this.#finish(this.#settings.limitReason);
    if (plan.finish !== undefined) return this.#finish(orderedReasons[plan.finish]);
    if (this.#matchedStop !== undefined) return this.#finish(FinishReason.STOP, this.#matchedStop);
    return this.#finish(plan.calls.length > 0 ? FinishReason.TOOL_CALLS : FinishReason.STOP);
  }

  #finish(reason: FinishReason, matchedStop?: string): GenerationEvent {
    const [messages = '', others = ''] = nativeWords[reason] ?? [];
    const isMessages = this.#settings.endpoint === Endpoint.MESSAGES;
    const word = isMessages ? messages : others;
    const facts: FinishFacts = {
      native: matchedStop !== undefined && isMessages ? 'stop_sequence' : word,
      ...(matchedStop === undefined ? {} : { matchedStop }),
      ...(reason === FinishReason.REFUSAL ? { detailsJson: refusalDetails } : {}),
    };
    return finished(this.#choice, reason, facts);
  }
}
