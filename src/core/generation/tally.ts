import type { Item } from '../../gen/tollgate/v1/content_pb.ts';
import { type GenerationEvent, type Usage, UsageSource } from '../../gen/tollgate/v1/event_pb.ts';
import { type GenerateRequest, ServiceTier } from '../../gen/tollgate/v1/request_pb.ts';
import { estimateTokens, loadTokenizer } from '../../generation/tokens.ts';
import { GrowingText } from '../../lib/growing-text.ts';
import type { UsageBuckets } from '../../ledger/ledger.ts';
import { countInputInPieces, countTextInPieces } from './count-input.ts';

/** Usage as it is charged, and who counted it. */
export interface CountedUsage {
  readonly buckets: UsageBuckets;
  readonly source: 'reported' | 'estimated';
}

/** What one call of a model can come to: its limits in tokens, of all candidates together. Infinity: none is known. */
export interface CallLimits {
  readonly candidates: number;
  readonly input: number;
  readonly output: number;
}

/** What the gateway has taken from an upstream: counts that it reported, and the text for the case that it reports none. */
export class Tally {
  readonly #limits: CallLimits;
  /** Reported while the answer runs: only its input is final. */
  #interim: Usage | undefined;
  /** Reported after the finish of every candidate: it is of the whole, though the answer's formal end has not come. */
  #afterFinish: Usage | undefined;
  /** Reported for the whole answer. */
  #final: Usage | undefined;
  readonly #finished = new Set<number>();
  #output = new GrowingText();
  #outputHigh = 0;
  /** Usage of earlier calls for the same answer (a continued pause). */
  #before: CountedUsage | undefined;
  /** How many calls the answer is made of, each with the whole input. */
  calls = 1;
  /** The tier that the upstream says it used; undefined where it says none. */
  serviceTier: ServiceTier | undefined;

  constructor(limits: CallLimits) {
    this.#limits = limits;
  }

  /** Takes a batch as it came from the upstream, before anything is enforced. */
  take(events: readonly GenerationEvent[]): void {
    for (const { choice, event } of events) {
      if (event.case === 'delta') this.#text(event.value.text);
      else if (event.case === 'itemOpened') this.#opened(event.value.content?.content);
      else if (event.case === 'finished') this.#finished.add(choice);
      else if (event.case === 'usageReported') this.#reported(event.value.usage);
      else if (event.case === 'started') this.#interim = event.value.usage ?? this.#interim;
      else if (event.case === 'completed') {
        this.#final = event.value.usage;
        if (event.value.serviceTier !== ServiceTier.UNSPECIFIED) this.serviceTier = event.value.serviceTier;
      }
    }
  }

  /** No output has come. */
  get isEmpty(): boolean {
    return this.#output.length === 0 && this.#before === undefined;
  }

  /** Output tokens so far, never too few. */
  get outputTokensHigh(): number {
    return this.#outputHigh + (this.#before?.buckets.output ?? 0);
  }

  /** Members of the upstream's own usage, for clients of its protocol. */
  get extra(): Usage['extra'] {
    return this.#final?.extra;
  }

  /** The client has gone, and pays what the upstream reported for the whole where it did (decisions §6). */
  takeReportOfWhole(): void {
    this.#final ??= this.#afterFinish;
  }

  /** Forgets a try whose output nobody has seen. */
  restart(): void {
    this.#interim = undefined;
    this.#afterFinish = undefined;
    this.#final = undefined;
    this.#finished.clear();
    this.#output = new GrowingText();
    this.#outputHigh = 0;
  }

  /** Ends one call of an answer that goes on with another: their usage is summed. */
  async carry(request: GenerateRequest): Promise<void> {
    const counted = await this.count(request);
    this.restart();
    this.#before = counted;
  }

  /**
   * The usage of all calls: as reported where the upstream reported it, counted here where not, and where it reports more input than the model takes. Output is
   * never more than `outputMax`, and of one call never more than the model's own limit: a wrong report must not empty an account.
   */
  async count(request: GenerateRequest, outputMax = Infinity): Promise<CountedUsage> {
    const reported = this.#believable(this.#final ?? this.#interim);
    const input = reported?.inputTokens;
    const output = this.#final?.outputTokens;
    const tokenizer = input !== undefined && output !== undefined ? undefined : await loadTokenizer();
    const left = Math.max(0, outputMax - (this.#before?.buckets.output ?? 0));
    const counted =
      output ?? (tokenizer === undefined ? 0 : await countTextInPieces(this.#output.toString(), tokenizer));
    const outputTokens = Math.min(counted, left, this.#limits.output);
    const buckets: UsageBuckets = {
      input: input ?? (tokenizer === undefined ? 0 : this.calls * (await countInputInPieces(request, tokenizer))),
      cacheRead: reported?.cacheReadTokens ?? 0,
      cacheWrite5m: reported?.cacheWrite5mTokens ?? 0,
      cacheWrite1h: reported?.cacheWrite1hTokens ?? 0,
      output: outputTokens,
      reasoning: Math.min(reported?.reasoningTokens ?? 0, outputTokens),
      images: 0,
    };
    const source = tokenizer === undefined ? 'reported' : 'estimated';
    return sum(this.#before, { buckets, source });
  }

  /** A report without input counts that can't be true. */
  #believable(reported: Usage | undefined): Usage | undefined {
    if (reported === undefined) return undefined;
    const { inputTokens, cacheReadTokens, cacheWrite5mTokens, cacheWrite1hTokens, ...rest } = reported;
    const counts = [inputTokens, cacheReadTokens, cacheWrite5mTokens, cacheWrite1hTokens];
    const input = counts.reduce<number>((total, count) => total + (count ?? 0), 0);
    return input > this.#limits.input ? rest : reported;
  }

  #reported(usage: Usage | undefined): void {
    this.#interim = usage;
    if (this.#finished.size >= this.#limits.candidates) this.#afterFinish = usage;
  }

  #opened(content: Item['content'] | undefined): void {
    if (content?.case === 'toolCall') this.#text(content.value.name);
  }

  #text(text: string): void {
    this.#output.append(text);
    this.#outputHigh += estimateTokens(text).high;
  }
}

function sum(before: CountedUsage | undefined, now: CountedUsage): CountedUsage {
  if (before === undefined) return now;
  const [a, b] = [before.buckets, now.buckets];
  return {
    buckets: {
      input: a.input + b.input,
      cacheRead: a.cacheRead + b.cacheRead,
      cacheWrite5m: a.cacheWrite5m + b.cacheWrite5m,
      cacheWrite1h: a.cacheWrite1h + b.cacheWrite1h,
      output: a.output + b.output,
      reasoning: a.reasoning + b.reasoning,
      images: 0,
    },
    source: before.source === 'reported' ? now.source : 'estimated',
  };
}

/** The charged usage as clients are told it. */
export function usageMessage({ buckets }: CountedUsage, extra: Usage['extra']): Usage {
  return {
    $typeName: 'tollgate.v1.Usage',
    inputTokens: buckets.input,
    cacheReadTokens: buckets.cacheRead,
    cacheWrite5mTokens: buckets.cacheWrite5m,
    cacheWrite1hTokens: buckets.cacheWrite1h,
    outputTokens: buckets.output,
    reasoningTokens: buckets.reasoning,
    ...(extra === undefined ? {} : { extra }),
  };
}

/** The source as the contract says it. */
export function usageSource(source: CountedUsage['source']): UsageSource {
  return source === 'reported' ? UsageSource.REPORTED : UsageSource.ESTIMATED;
}
