import type { TextKind } from '../../generation/text-kind.ts';
import { toolPromptTokens, type ToolUse } from '../../generation/tool-prompt.ts';
import type { RouteName } from '../routing/observer.ts';

/** A text that was measured without a tokenizer: an upper bound of its tokens (`estimate`), and its kind. The relation of providers' counts to the estimate is learned for each kind. */
export interface MeasuredTokens {
  readonly estimate: number;
  readonly kind: TextKind;
  /** How the tools of an input are used, because providers add prompts for tools; absent: it has none, or the text is output. */
  readonly tools?: ToolUse | undefined;
}

/** A provider's report for one answer, and the gateway's measurement. Absent fields: not reported, or not comparable. */
export interface TokenReport {
  readonly input?: MeasuredTokens & { readonly tokens: number };
  /** The output without reasoning. */
  readonly output?: MeasuredTokens & { readonly tokens: number };
  /** The reasoning tokens, and the time until the answer's first text. */
  readonly reasoning?: { readonly tokens: number; readonly ms: number };
}

/** The learned facts about one provider and model for one kind of text. */
export interface LearnedSample {
  readonly route: RouteName;
  /** "input" or "output", the kind of text, and for an input with tools how they are used. */
  readonly of: string;
  /** The provider's tokens per estimated token, for a text whose estimate is 1,000. */
  readonly ratio: number;
}

/** Each new report multiplies the weight of earlier ones by this. */
const keptShare = 0.9;
/** Learns from each of the first answers of a route; after that, from one per `pauseMs`. */
const eagerAnswers = 64;
const pauseMs = 1_000;
/** The most routes in memory. Beyond that, the model that was added first is evicted with its routes. */
const routesMax = 2_000;
/** The count of every tokenizer is between these multiples of the upper bound for o200k_base. */
const slope = { min: 1 / 16, max: 4 };
/** The most tokens that a chat template adds. */
const templateTokensMax = 1_024;
/** The largest factor between a prediction and its upper bound. */
const spreadMax = 4;

/**
 * Predicts tokens from the estimate by linear regression over the latest reports. The intercept is what a chat template adds. Short texts have the same weight as long ones.
 */
class TokenRegression {
  #weight = 0;
  #x = 0;
  #y = 0;
  #xx = 0;
  #xy = 0;
  #spread = 1;

  /** `template`: the tokens that are expected besides those of the text. */
  constructor(template: number) {
    // Starts with two samples, a short and a long text, that have the usual ratio of tokens to the upper bound.
    this.#add(32, template + 32 * 0.67, 0.05);
    this.#add(4_096, template + 4_096 * 0.67, 0.05);
  }

  learn(estimate: number, tokens: number): void {
    // No tokenizer counts like this: the report is wrong, and must not make later holds too large.
    if (tokens > templateTokensMax + slope.max * estimate || tokens < slope.min * estimate) return;
    const predicted = this.predict(estimate);
    if (predicted > 0) {
      this.#spread = Math.min(spreadMax, Math.max(tokens / predicted, 1 + (this.#spread - 1) * keptShare));
    }
    this.#weight *= keptShare;
    this.#x *= keptShare;
    this.#y *= keptShare;
    this.#xx *= keptShare;
    this.#xy *= keptShare;
    this.#add(estimate, tokens, 1);
  }

  predict(estimate: number): number {
    const weight = this.#weight;
    const x = this.#x;
    const y = this.#y;
    const denominator = weight * this.#xx - x * x;
    const rawSlope = denominator > 0 ? (weight * this.#xy - x * y) / denominator : y / x;
    const boundedSlope = Math.min(slope.max, Math.max(slope.min, rawSlope));
    const intercept = Math.min(templateTokensMax, Math.max(0, (y - boundedSlope * x) / weight));
    return intercept + boundedSlope * estimate;
  }

  /** Returns the most tokens to expect: the prediction, multiplied by the factor by which recent reports exceeded their predictions. */
  high(estimate: number): number {
    return this.predict(estimate) * this.#spread;
  }

  #add(x: number, y: number, share: number): void {
    const weight = share / (x + 64) ** 2;
    this.#weight += weight;
    this.#x += weight * x;
    this.#y += weight * y;
    this.#xx += weight * x * x;
    this.#xy += weight * x * y;
  }
}

class LearnedRoute {
  readonly regressions = new Map<string, TokenRegression>();
  /** Reasoning tokens per ms; undefined: unknown. */
  reasoningRate: number | undefined;
  answers = 0;
  latestAtMs = 0;

  findOrAdd(of: string, template = 0): TokenRegression {
    let regression = this.regressions.get(of);
    if (regression === undefined) {
      regression = new TokenRegression(template);
      this.regressions.set(of, regression);
    }
    return regression;
  }
}

/**
 * Learns how providers count tokens, by provider, model and kind of text, from the usage that they report for complete answers. It is used to estimate the usage of answers for which none is reported (because the client disconnected early), for token counts, and for holds. Kept in memory. Source:
 * docs/accounting.md "Estimates".
 */
export class LearnedTokens {
  /** By the listed model, then by the provider and its name for the model. */
  readonly #models = new Map<string, Map<string, { readonly name: RouteName; readonly learned: LearnedRoute }>>();
  #routes = 0;

  /**
   * Returns whether to learn from another answer of a route: from each of the first ones, then from one per second.
   */
  isDue(route: RouteName, nowMs: number): boolean {
    const learned = this.#findOrAdd(route);
    if (learned.answers >= eagerAnswers && nowMs - learned.latestAtMs < pauseMs) return false;
    learned.answers += 1;
    learned.latestAtMs = nowMs;
    return true;
  }

  learn(route: RouteName, { input, output, reasoning }: TokenReport): void {
    const learned = this.#findOrAdd(route);
    if (input !== undefined) {
      const regression = learned.findOrAdd(ofInput(input), toolPromptTokens(route.model, input.tools));
      regression.learn(input.estimate, input.tokens);
    }
    if (output !== undefined) learned.findOrAdd(`output ${output.kind}`).learn(output.estimate, output.tokens);
    if (reasoning === undefined || reasoning.ms <= 0) return;
    const rate = reasoning.tokens / reasoning.ms;
    const known = learned.reasoningRate;
    learned.reasoningRate = known === undefined ? rate : keptShare * known + (1 - keptShare) * rate;
  }

  /** Predicts the tokens of an input at a route; undefined if nothing was learned about that kind. */
  input(route: RouteName, measured: MeasuredTokens): number | undefined {
    return this.#predict(route, ofInput(measured), measured.estimate);
  }

  /** Predicts the tokens of an output at a route, without reasoning; undefined if nothing was learned about that kind. */
  output(route: RouteName, { kind, estimate }: MeasuredTokens): number | undefined {
    return this.#predict(route, `output ${kind}`, estimate);
  }

  /** Predicts the reasoning tokens that a route generates in `ms`; undefined if nothing was learned. */
  reasoning(route: RouteName, ms: number): number | undefined {
    const rate = this.#find(route)?.reasoningRate;
    return rate === undefined ? undefined : Math.round(rate * ms);
  }

  /** Returns the most tokens to expect of an input at any route of a model; undefined if nothing was learned about that kind. */
  inputHigh(modelId: string, measured: MeasuredTokens): number | undefined {
    let high: number | undefined;
    for (const { learned } of this.#models.get(modelId)?.values() ?? []) {
      const regression = learned.regressions.get(ofInput(measured));
      if (regression !== undefined) high = Math.max(high ?? 0, Math.ceil(regression.high(measured.estimate)));
    }
    return high;
  }

  /**
   * Returns the highest of the predictions of a model's routes for the tokens of an input; undefined if nothing was learned about that kind.
   */
  estimateModelInput(modelId: string, measured: MeasuredTokens): number | undefined {
    const known = [...(this.#models.get(modelId)?.values() ?? [])].flatMap(
      ({ name }) => this.input(name, measured) ?? [],
    );
    return known.length === 0 ? undefined : Math.max(...known);
  }

  /** Returns all samples, for metrics. */
  samples(): LearnedSample[] {
    const routes = [...this.#models.values()].flatMap(model => [...model.values()]);
    return routes.flatMap(({ name: route, learned }) =>
      [...learned.regressions].map(([of, regression]) => ({ route, of, ratio: regression.predict(1_000) / 1_000 })),
    );
  }

  #predict(route: RouteName, of: string, estimate: number): number | undefined {
    const regression = this.#find(route)?.regressions.get(of);
    return regression === undefined ? undefined : Math.round(regression.predict(estimate));
  }

  #find(route: RouteName): LearnedRoute | undefined {
    return this.#models.get(route.modelId)?.get(toKey(route))?.learned;
  }

  #findOrAdd(name: RouteName): LearnedRoute {
    const known = this.#find(name);
    if (known !== undefined) return known;
    const learned = new LearnedRoute();
    if (this.#routes >= routesMax) this.#evictOldest();
    const model = this.#models.get(name.modelId) ?? new Map<string, { name: RouteName; learned: LearnedRoute }>();
    model.set(toKey(name), { name, learned });
    this.#models.set(name.modelId, model);
    this.#routes += 1;
    return learned;
  }

  #evictOldest(): void {
    const [oldest] = this.#models;
    if (oldest === undefined) return;
    this.#models.delete(oldest[0]);
    this.#routes -= oldest[1].size;
  }
}

function ofInput({ kind, tools }: MeasuredTokens): string {
  return tools === undefined ? `input ${kind}` : `input ${kind}, tools ${tools}`;
}

function toKey({ provider, model }: RouteName): string {
  return `${provider}\n${model}`;
}
