import { type GenerateRequest, ReasoningEffort, ThinkingMode } from '../../gen/tollgate/v1/request_pb.ts';
import type { CountCorrection, MeasuredText, Tally } from '../../generation/guard/tally.ts';
import { readToolUse, toolPromptTokens, type ToolUse } from '../../generation/tool-prompt.ts';
import { loadTokenizer, type MeasuredInput } from '../../generation/tokens.ts';
import { countInputInPieces } from '../../generation/count-input.ts';
import { sumInput, toBuckets } from '../../generation/usage-buckets.ts';
import type { Runtime } from '../../lib/runtime.ts';
import type { RouteName } from '../routing/observer.ts';
import type { Router } from '../routing/router.ts';
import type { UnseenOutput } from './unseen-output.ts';

/** The dependencies of `AnswerCounts`. */
export interface CountingDependencies {
  readonly unseenOutput: UnseenOutput;
  readonly runtime: Pick<Runtime, 'monotonicMs'>;
  readonly router: Pick<Router, 'countTokens'>;
}

const nowhere: RouteName = { modelId: '', provider: '', model: '' };

/** Measures one answer. If its upstream reports no usage, the usage is estimated from that; if it does, later estimates learn from it. */
export class AnswerCounts implements CountCorrection {
  readonly #dependencies: CountingDependencies;
  readonly #measured: MeasuredInput | undefined;
  readonly #request: GenerateRequest;
  readonly #wantsReasoning: boolean;
  readonly #tools: ToolUse | undefined;
  #route = nowhere;
  #isRemote = false;
  #sentAtMs = 0;
  /** The time from the attempt's start to the answer's first text; undefined: no text yet. */
  #firstTextMs: number | undefined;
  #ranUntilStopMs: number | undefined;

  /** `measured`: bounds of the input; undefined: it was not measured. */
  constructor(dependencies: CountingDependencies, request: GenerateRequest, measured: MeasuredInput | undefined) {
    this.#dependencies = dependencies;
    this.#measured = measured?.hasMedia === true ? undefined : measured;
    this.#request = request;
    this.#wantsReasoning = wantsReasoning(request);
    this.#tools = readToolUse(request);
  }

  /** True if the answer comes from a provider, not from a built-in model. The provider has to be paid for what it produced, even if that was not delivered. */
  get isRemote(): boolean {
    return this.#isRemote;
  }

  /** Called when an attempt is sent to an upstream. */
  sent(route: RouteName, isRemote: boolean): void {
    this.#route = route;
    this.#isRemote = isRemote;
    this.#sentAtMs = this.#dependencies.runtime.monotonicMs();
    this.#firstTextMs = undefined;
  }

  /** Records when the answer's first text arrives; the reasoning has ended then. */
  noteFirstText(tally: Tally): void {
    if (this.#firstTextMs === undefined && tally.hasAnswer) this.#firstTextMs = this.#msSinceSent();
  }

  /** Called when the attempt was stopped. */
  stopped(): void {
    this.#ranUntilStopMs ??= this.#msSinceSent();
  }

  /** Estimates the output tokens of an answer that delivered nothing: the duration of the attempt, multiplied by the speed of its route. */
  estimateUnseenOutput(): number {
    return this.#dependencies.unseenOutput.estimate(this.#route, this.#ranMs());
  }

  /** Returns the input tokens as the provider counts them, if it can be queried for that; otherwise estimated from its earlier reports. */
  async input(): Promise<number | undefined> {
    const measured = this.#measured;
    if (measured === undefined) return undefined;
    const { unseenOutput, router } = this.#dependencies;
    const counted = await router.countTokens(this.#request, this.#route);
    const known = { kind: measured.kind, estimate: measured.ownHigh, tools: this.#tools };
    const learned = counted ?? unseenOutput.tokens.input(this.#route, known);
    const prompt = learned === undefined ? toolPromptTokens(this.#route.model, this.#tools) : 0;
    return prompt === 0 ? learned : prompt + (await countInputInPieces(this.#request, await loadTokenizer()));
  }

  output(text: MeasuredText): number | undefined {
    return this.#dependencies.unseenOutput.tokens.output(this.#route, text);
  }

  reasoning(isShown: boolean): number | undefined {
    if (!this.#isRemote) return undefined;
    const ms = this.#firstTextMs ?? this.#ranMs();
    const known = this.#dependencies.unseenOutput.tokens.reasoning(this.#route, ms);
    if (known !== undefined || isShown || !this.#wantsReasoning) return known;
    return this.#dependencies.unseenOutput.estimate(this.#route, ms);
  }

  /** Returns the reasoning tokens so far of an answer without text, as learned from its route; undefined: nothing was learned, or the answer has text. */
  unseenReasoning(): number | undefined {
    if (!this.#isRemote || this.#firstTextMs !== undefined) return undefined;
    return this.#dependencies.unseenOutput.tokens.reasoning(this.#route, this.#ranMs());
  }

  /**
   * Learns from the usage that the upstream reported for a complete answer. `wasWhole`: the upstream did not stream the answer.
   */
  learn(tally: Tally, wasWhole: boolean): void {
    const usage = tally.reported;
    const { unseenOutput, runtime } = this.#dependencies;
    const { tokens } = unseenOutput;
    if (!this.#isRemote || usage === undefined) return;
    const { inputTokens, outputTokens, reasoningTokens } = usage;
    if (wasWhole && outputTokens !== undefined) unseenOutput.learn(this.#route, outputTokens, this.#msSinceSent());
    if (!tokens.isDue(this.#route, runtime.monotonicMs())) return;
    const { text, reasoningHigh } = tally.measured();
    const measured = tally.calls === 1 ? this.#measured : undefined;
    const hidden =
      reasoningTokens === undefined ? { high: 0, tokens: 0 } : { high: reasoningHigh, tokens: reasoningTokens };
    const visible = { kind: text.kind, estimate: text.estimate - hidden.high };
    // Only streams are compared: an answer that is not streamed is measured in one piece, a stream in many, and the estimates differ.
    const isComparable = outputTokens !== undefined && visible.estimate > 0 && !wasWhole;
    tokens.learn(this.#route, {
      ...(measured === undefined || inputTokens === undefined
        ? {}
        : {
            input: {
              kind: measured.kind,
              estimate: measured.ownHigh,
              tools: this.#tools,
              tokens: sumInput(toBuckets(usage)),
            },
          }),
      ...(isComparable ? { output: { ...visible, tokens: Math.max(0, outputTokens - hidden.tokens) } } : {}),
      ...(reasoningTokens === undefined || wasWhole || this.#firstTextMs === undefined
        ? {}
        : { reasoning: { tokens: reasoningTokens, ms: this.#firstTextMs } }),
    });
  }

  #msSinceSent(): number {
    return this.#dependencies.runtime.monotonicMs() - this.#sentAtMs;
  }

  /** Returns how long the last attempt ran. */
  #ranMs(): number {
    return this.#ranUntilStopMs ?? this.#msSinceSent();
  }
}

/** Returns true if a request asks for reasoning: an effort or a thinking mode is set, and thinking is not disabled. */
function wantsReasoning({ reasoning }: GenerateRequest): boolean {
  if (reasoning === undefined || reasoning.thinking === ThinkingMode.DISABLED) return false;
  const { effort } = reasoning;
  const hasEffort = effort !== ReasoningEffort.UNSPECIFIED && effort !== ReasoningEffort.NONE;
  return hasEffort || reasoning.thinking !== ThinkingMode.UNSPECIFIED;
}
