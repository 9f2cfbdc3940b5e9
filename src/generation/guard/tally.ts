import type { Item } from '../../gen/tollgate/v1/content_pb.ts';
import {
  type Delta,
  DeltaKind,
  type GenerationEvent,
  type Started,
  type Usage,
  UsageSource,
} from '../../gen/tollgate/v1/event_pb.ts';
import type { GenerateRequest } from '../../gen/tollgate/v1/request_pb.ts';
import { GrowingText } from '../../lib/growing-text.ts';
import { withEntry } from '../../lib/short-list.ts';
import { visibleTokens } from './length-cutter.ts';
import { countInPieces, countInputInPieces } from '../count-input.ts';
import { readTier } from '../service-tier.ts';
import { type TextKind, TextSample } from '../text-kind.ts';
import { estimateTokens, loadTokenizer, type Tokenizer } from '../tokens.ts';
import { addBuckets, sumInput, toBuckets, toUsage, type UsageBuckets } from '../usage-buckets.ts';

/** The usage that is charged, and whether the upstream reported it or the gateway estimated it. */
export interface CountedUsage {
  readonly buckets: UsageBuckets;
  readonly source: 'reported' | 'estimated';
  /** See `Usage`; absent: nothing. */
  readonly unpriced?: readonly string[];
}

/** The token limits of a model for one call, all candidates together; Infinity: unknown. */
export interface CallLimits {
  readonly candidates: number;
  readonly input: number;
  readonly output: number;
}

/** Corrects the gateway's count if the upstream has reported none. */
export interface CountCorrection {
  /** Returns the input tokens of one call; undefined: unknown. Never rejects. */
  input(): Promise<number | undefined>;
  /** Returns the output tokens of a text; undefined: unknown. */
  output(text: MeasuredText): number | undefined;
  /** Returns all reasoning tokens so far, shown or not; `isShown`: some of it was shown. Undefined: unknown. */
  reasoning(isShown: boolean): number | undefined;
}

/** A measured text of the output. */
export interface MeasuredText {
  /** An upper bound of its tokens. */
  readonly estimate: number;
  readonly kind: TextKind;
}

/** The tokens of one call, and whether they were reported or estimated. */
interface Counts {
  readonly input: number;
  readonly output: number;
  /** Absent: the reported number applies. */
  readonly reasoning?: number;
  readonly source: CountedUsage['source'];
}

/** Records the counts that an upstream reports, and measures the text in case it reports none. */
export class Tally {
  readonly #limits: CallLimits;
  /** Usage that was reported during the answer; only its input is final. */
  #interim: Usage | undefined;
  /** The latest output count that was reported during the answer, and the upper bound of the output at that moment. */
  #running: { readonly tokens: number; readonly high: number; readonly length: number } | undefined;
  /** Usage that was reported after every choice had finished. It covers the whole answer, even if the formal end is missing. */
  #afterFinish: Usage | undefined;
  /** Usage that was reported at the end of the answer. */
  #final: Usage | undefined;
  #finished: readonly number[] = [];
  #output = new GrowingText();
  #outputHigh = 0;
  /** The part of that which is reasoning. */
  #reasoningHigh = 0;
  #isEnded = false;
  /** True if anything but reasoning has come. */
  #hasAnswer = false;
  /** The usage of earlier calls of the same answer, after which the upstream paused. */
  #before: CountedUsage | undefined;
  /** Members without a price that the upstream was sent (`passthrough: all`). */
  #sentUnpriced: readonly string[] = [];
  /** How many upstream calls the answer consists of, each with the whole input. */
  calls = 1;
  /** The name of the service tier that the upstream reports; undefined if it reports none. */
  serviceTier: string | undefined;

  constructor(limits: CallLimits) {
    this.#limits = limits;
  }

  /** Adds events as they came from the upstream, before the guard changes them. */
  take(events: readonly GenerationEvent[]): void {
    for (const { choice, event } of events) {
      if (event.case === 'delta') this.#delta(event.value);
      else if (event.case === 'itemOpened') this.#takeOpened(event.value.content?.content);
      else if (event.case === 'finished') this.#finish(choice);
      else if (event.case === 'usageReported') this.#takeReport(event.value.usage);
      else if (event.case === 'started') this.#start(event.value);
      else if (event.case === 'completed') {
        this.#isEnded = true;
        this.#final = event.value.usage;
        this.serviceTier = readTier(event.value) ?? this.serviceTier;
      }
    }
  }

  get isEmpty(): boolean {
    return this.#output.length === 0 && this.#before === undefined;
  }

  /** An upper bound of the output tokens so far: of the text, or more if the upstream has reported more, because some are not sent. */
  get outputTokensHigh(): number {
    const { tokens, high } = this.#running ?? { tokens: 0, high: 0 };
    return this.#outputHigh + Math.max(0, tokens - high) + (this.#before?.buckets.output ?? 0);
  }

  /** True if the answer itself has begun, so that the reasoning before it has ended. */
  get hasAnswer(): boolean {
    return this.#hasAnswer;
  }

  /** The usage that the upstream reported for a whole answer of one call; undefined if there is none, or if it is not plausible. */
  get reported(): Usage | undefined {
    return this.#before === undefined ? this.#believable(this.#final) : undefined;
  }

  /** The input of a report that is not believed, because the model can't have read so much; undefined: there is none. */
  get doubtfulInput(): number | undefined {
    const reported = this.#final ?? this.#interim;
    const input = reported === undefined ? 0 : sumInput(toBuckets(reported));
    return input > this.#limits.input ? input : undefined;
  }

  /** True if the upstream reports that it kept a limit (of all choices together) without its reasoning, which its limit therefore does not count. */
  keptVisibly(limit: number): boolean {
    const reported = this.#final;
    return (reported?.reasoningTokens ?? 0) > 0 && reported !== undefined && visibleTokens(reported) <= limit;
  }

  /** True if the upstream has ended its answer, with or without a report of usage. */
  get isEnded(): boolean {
    return this.#isEnded;
  }

  /** Returns all text so far, and the upper bound of the part that is reasoning. */
  measured(): { readonly text: MeasuredText; readonly reasoningHigh: number } {
    return { text: this.#measure(this.#outputHigh), reasoningHigh: this.#reasoningHigh };
  }

  /** The unknown members of the upstream's usage, for clients of the same protocol. */
  get extra(): Usage['extra'] {
    return this.#final?.extra;
  }

  /**
   * Uses the usage that the upstream reports for the whole answer even if the client disconnected before (docs/accounting.md "Settlement").
   */
  acceptLateUsage(): void {
    this.#final ??= this.#afterFinish;
  }

  /** Forgets an attempt whose output was not delivered. */
  restart(): void {
    this.#interim = undefined;
    this.#afterFinish = undefined;
    this.#final = undefined;
    this.#finished = [];
    this.#running = undefined;
    if (this.#output.length > 0) this.#output = new GrowingText();
    this.#outputHigh = 0;
    this.#reasoningHigh = 0;
    this.#hasAnswer = false;
    this.#isEnded = false;
  }

  /** Keeps the usage of a call, because the answer continues in another call; their usage is added up. */
  async carry(request: GenerateRequest): Promise<void> {
    const counted = await this.count(request);
    this.restart();
    this.#before = counted;
  }

  /**
   * Returns the usage of all calls: as the upstream reported it, or, if it reported none or more input than the model accepts, counted here, which needs the tokenizer. The output is never more than `outputMax`, and for one call never more than the model's limit, because a wrong report must not empty an account. `correction`: how the
   * upstream's counts differ from the gateway's; absent: what has come is counted without a correction.
   */
  count(
    request: GenerateRequest,
    outputMax = Infinity,
    correction?: CountCorrection,
  ): CountedUsage | Promise<CountedUsage> {
    const reported = this.#believable(this.#final ?? this.#interim);
    const input = reported?.inputTokens;
    const output = this.#final?.outputTokens;
    return input === undefined || output === undefined
      ? this.#estimate(request, reported, { outputMax, correction })
      : this.#total(reported, { input, output, source: 'reported' }, outputMax);
  }

  async #estimate(
    request: GenerateRequest,
    reported: Usage | undefined,
    { outputMax, correction }: { readonly outputMax: number; readonly correction: CountCorrection | undefined },
  ): Promise<CountedUsage> {
    const tokenizer = await loadTokenizer();
    const learned = reported?.inputTokens === undefined ? await correction?.input() : undefined;
    const input = reported?.inputTokens ?? this.calls * (learned ?? (await countInputInPieces(request, tokenizer)));
    const output = this.#final?.outputTokens;
    const counted = output === undefined ? await this.#countOutput(tokenizer, correction) : { output };
    return this.#total(reported, { input, ...counted, source: 'estimated' }, outputMax);
  }

  /** Returns the output of an answer without a final report: the last count that was reported during the answer, plus an estimate of what came after it. */
  async #countOutput(
    tokenizer: Tokenizer,
    correction: CountCorrection | undefined,
  ): Promise<{ readonly output: number; readonly reasoning?: number }> {
    const running = correction === undefined ? undefined : this.#running;
    const { tokens = 0, high = 0, length = 0 } = running ?? {};
    const since = this.#measure(this.#outputHigh - high);
    const learned = this.#outputHigh === high ? 0 : correction?.output(since);
    const text = this.#output.toString();
    const visible = learned ?? (await countInPieces([length === 0 ? text : text.slice(length)], tokenizer));
    // The reported count includes reasoning that is not shown.
    if (running !== undefined) return { output: tokens + visible };
    const shown = this.#outputHigh === 0 ? 0 : Math.round((visible * this.#reasoningHigh) / this.#outputHigh);
    const reasoning = Math.max(shown, correction?.reasoning(this.#reasoningHigh > 0) ?? 0);
    return { output: visible - shown + reasoning, ...(reasoning === 0 ? {} : { reasoning }) };
  }

  #measure(estimate: number): MeasuredText {
    const sample = new TextSample();
    sample.add(this.#output.toString());
    return { estimate, kind: sample.kind };
  }

  #total(reported: Usage | undefined, counts: Counts, outputMax: number): CountedUsage {
    const left = Math.max(0, outputMax - (this.#before?.buckets.output ?? 0));
    const passes = countPasses(reported);
    // Limits of the request bound the answer, not the passes before it (compaction, an advisor).
    const most = passes > 1 ? passes * this.#limits.output : Math.min(left, this.#limits.output);
    const output = Math.min(counts.output, most);
    const reasoningTokens = Math.min(counts.reasoning ?? reported?.reasoningTokens ?? 0, output);
    const buckets = toBuckets({ ...reported, inputTokens: counts.input, outputTokens: output, reasoningTokens });
    const unpriced = [...this.#sentUnpriced, ...(reported?.unpriced ?? [])];
    return sum(this.#before, { buckets, source: counts.source, ...(unpriced.length > 0 && { unpriced }) });
  }

  /** Returns the report without input counts that are impossible. */
  #believable(reported: Usage | undefined): Usage | undefined {
    if (reported === undefined) return undefined;
    if (sumInput(toBuckets(reported)) <= this.#limits.input) return reported;
    const {
      inputTokens: _,
      cacheReadTokens: __,
      cacheWrite5mTokens: ___,
      cacheWrite1hTokens: ____,
      ...rest
    } = reported;
    return rest;
  }

  #start({ usage, warnings }: Started): void {
    this.#interim = usage ?? this.#interim;
    this.#sentUnpriced = warnings.flatMap(each => /^unpriced=(.*)$/.exec(each)?.[1]?.split(',') ?? []);
  }

  #takeReport(usage: Usage | undefined): void {
    this.#interim = usage;
    const tokens = usage?.outputTokens;
    if (tokens !== undefined) this.#running = { tokens, high: this.#outputHigh, length: this.#output.length };
    if (this.#finished.length >= this.#limits.candidates) this.#afterFinish = usage;
  }

  #finish(choice: number): void {
    if (this.#finished.length < this.#limits.candidates && !this.#finished.includes(choice))
      this.#finished = withEntry(this.#finished, choice);
  }

  #takeOpened(content: Item['content'] | undefined): void {
    if (content?.case !== 'toolCall') return;
    this.#hasAnswer = true;
    this.#text(content.value.name);
  }

  #delta({ kind, text }: Delta): void {
    // The repetition of the prompt (`echo`) is not output.
    if (kind === DeltaKind.ECHO) return;
    const high = this.#text(text);
    if (kind === DeltaKind.REASONING || kind === DeltaKind.SUMMARY) this.#reasoningHigh += high;
    else this.#hasAnswer = true;
  }

  #text(text: string): number {
    this.#output.append(text);
    const { high } = estimateTokens(text);
    this.#outputHigh += high;
    return high;
  }
}

/** Returns of how many passes a usage is the sum (`usage.iterations` of Messages). */
function countPasses(usage: Usage | undefined): number {
  if (usage?.extra?.json.includes('"iterations"') !== true) return 1;
  const { iterations } = JSON.parse(usage.extra.json) as { readonly iterations?: unknown };
  return Array.isArray(iterations) ? Math.max(1, iterations.length) : 1;
}

function sum(before: CountedUsage | undefined, now: CountedUsage): CountedUsage {
  if (before === undefined) return now;
  const source = before.source === 'reported' ? now.source : 'estimated';
  const unpriced = [...(before.unpriced ?? []), ...(now.unpriced ?? [])];
  return { buckets: addBuckets(before.buckets, now.buckets), source, ...(unpriced.length > 0 && { unpriced }) };
}

/** Converts the charged usage to the message that clients get. */
export function usageMessage({ buckets, unpriced = [] }: CountedUsage, extra: Usage['extra']): Usage {
  const usage = toUsage(buckets);
  usage.unpriced.push(...unpriced);
  if (extra !== undefined) usage.extra = extra;
  return usage;
}

/** Converts the source of usage to its protobuf value. */
export function usageSource(source: CountedUsage['source']): UsageSource {
  return source === 'reported' ? UsageSource.REPORTED : UsageSource.ESTIMATED;
}
