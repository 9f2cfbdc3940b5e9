import { ItemStatus } from '../../gen/tollgate/v1/content_pb.ts';
import {
  type Delta,
  DeltaKind,
  FinishReason,
  type GenerationEvent,
  type Usage,
} from '../../gen/tollgate/v1/event_pb.ts';
import { delta } from '../events.ts';
import { ChoiceEnd } from './choice-end.ts';
import { PerChoice } from './per-choice.ts';
import type { EventStep } from './step.ts';
import { TokenMeter } from './token-meter.ts';

/** The tokens that an output limit counts, and how exactly. */
export interface LimitTerms {
  /** The factor by which the gateway's count may exceed the limit, so that an upstream that keeps the limit with another tokenizer is not cut; absent: 1. */
  readonly tolerance?: number;
  /** True if the upstream's limit counts only what clients see, not reasoning; absent: false. */
  readonly isVisible?: boolean;
  /** The number of choices, whose tokens the upstream reports together; absent: 1. */
  readonly candidates?: number;
}

/** The limits of one choice, in tokens as the gateway counts them. */
interface Limits {
  /** The client's limit, with the tolerance. Text after it is kept back. */
  asked: number;
  /** The tokens that an upstream with another tokenizer may send until its own count arrives. */
  awaited: number;
  /** How much the funds pay for; Infinity until they have ended. */
  paid: number;
}

const noLimits: Limits = { asked: Infinity, awaited: Infinity, paid: Infinity };

/**
 * Ends each choice at its output limit, even if the upstream ignores it. An answer that kept the limit by the upstream's own count is never cut: text beyond the limit is kept back until that count arrives, but no more than the limit again.
 */
export class LengthCutter implements EventStep {
  readonly #next: EventStep;
  /** The most tokens that the upstream may report for all choices together. */
  readonly #reportedMax: number;
  readonly #limits: Limits;
  /** The UTF-8 bytes of all announced text, which is an upper bound of its tokens in any tokenizer. */
  #bytes = 0;
  readonly #choices: PerChoice<LengthChoice, ChoiceTerms>;

  /** `limit`: in tokens per choice; Infinity: none. */
  constructor(next: EventStep, limit: number, terms: LimitTerms = {}) {
    const { tolerance = 1, candidates = 1 } = terms;
    this.#next = next;
    this.#reportedMax = limit * candidates;
    const asked = Math.floor(limit * tolerance);
    this.#limits = { asked, awaited: tolerance === 1 ? asked : 2 * asked + awaitedLeast, paid: Infinity };
    this.#choices = new PerChoice(newLengthChoice, { next, isVisible: terms.isVisible === true });
  }

  get hasCut(): boolean {
    return this.#choices.some(isCut);
  }

  /** Lowers the limit to what is paid for from now on, without tolerance. A higher value than the current limit has no effect. */
  lower(limit: number): void {
    this.#limits.paid = Math.min(this.#limits.paid, limit);
  }

  /** Returns whether the tokenizer must be loaded before these events can be pushed. */
  needsTokenizer(events: readonly GenerationEvent[]): boolean {
    const near = this.#near;
    return near < Infinity && this.#bytes + textBytes(events) > near;
  }

  /** Announces events that will be pushed, now or later. Every event must be announced before it is pushed. */
  announce(events: readonly GenerationEvent[]): void {
    this.#bytes += textBytes(events);
    const last = events.at(-1)?.event;
    if (last?.case === 'completed' && this.#isKept(last.value.usage)) Object.assign(this.#limits, kept);
  }

  push(event: GenerationEvent): void {
    const kind = event.event.case;
    if (kind === 'started' || kind === 'completed' || kind === 'usageReported') {
      if (kind === 'completed') for (const choice of this.#choices.all()) choice.decide(this.#limits);
      this.#next.push(event);
    } else this.#choices.get(event.choice).push(event, this.#bytes > this.#near ? this.#limits : noLimits);
  }

  get #near(): number {
    return Math.min(this.#limits.asked, this.#limits.paid);
  }

  /** Returns whether the upstream reports that it kept the limit, or would have without its reasoning: then its limit does not count that. */
  #isKept(usage: Usage | undefined): boolean {
    return usage?.outputTokens !== undefined && visibleTokens(usage) <= this.#reportedMax;
  }
}

/** Returns the reported output without the reasoning; 0: none was reported. */
export function visibleTokens({ outputTokens = 0, reasoningTokens = 0 }: Usage): number {
  return outputTokens - reasoningTokens;
}

/** The tokens that an upstream may send at least until its own count arrives. */
const awaitedLeast = 16;
const kept: Pick<Limits, 'asked' | 'awaited'> = { asked: Infinity, awaited: Infinity };

/** Returns the bytes of all text in the events, including the `{}` that a call without arguments gets when it closes. */
function textBytes(events: readonly GenerationEvent[]): number {
  let bytes = 0;
  for (const { event } of events) {
    if (event.case === 'delta') bytes += event.value.kind === DeltaKind.ECHO ? 0 : Buffer.byteLength(event.value.text);
    else if (event.case === 'itemClosed') bytes += 2;
  }
  return bytes;
}

const newLengthChoice = (choice: number, terms: ChoiceTerms): LengthChoice => new LengthChoice(terms, choice);
const isCut = ({ end }: LengthChoice): boolean => end.isCut;

/** The state that all choices share. */
interface ChoiceTerms {
  readonly next: EventStep;
  readonly isVisible: boolean;
}

/** Events that are kept back from the first delta beyond the limit on. */
interface Beyond {
  readonly events: GenerationEvent[];
  /** The event that ends a cut answer: the part of the first delta within the limit; undefined: nothing of it is. */
  readonly last: GenerationEvent | undefined;
}

class LengthChoice {
  readonly end = new ChoiceEnd();
  readonly #next: EventStep;
  readonly #choice: number;
  /** Counts the text that the limit counts. */
  readonly #meter = new TokenMeter();
  /** Counts all text, if the limit does not; undefined: it does. */
  readonly #all: TokenMeter | undefined;
  #beyond: Beyond | undefined;

  constructor({ next, isVisible }: ChoiceTerms, choice: number) {
    this.#next = next;
    this.#choice = choice;
    this.#all = isVisible ? new TokenMeter() : undefined;
  }

  push(event: GenerationEvent, limits: Limits): void {
    if (this.end.isCut) return;
    if (event.event.case === 'delta' && event.event.value.kind !== DeltaKind.ECHO) {
      this.#delta(event, event.event.value, limits);
    } else this.#pass(event);
  }

  /** Called at the end of the answer: what was kept back is sent if the answer kept its limit. */
  decide({ asked }: Limits): void {
    const beyond = this.#beyond;
    if (beyond === undefined || this.end.isCut) return;
    if (asked < Infinity) return this.#cut(beyond.last);
    this.#beyond = undefined;
    for (const event of beyond.events) this.#pass(event);
  }

  #pass(event: GenerationEvent): void {
    if (this.#beyond !== undefined) {
      this.#beyond.events.push(event);
      return;
    }
    this.end.follow(event);
    this.#next.push(event);
  }

  #delta(event: GenerationEvent, value: Delta, limits: Limits): void {
    const within = this.#fit(value, limits);
    if (within === value.text) return this.#pass(event);
    if (this.#beyond !== undefined) return this.#cut(this.#beyond.last);
    const last = within === '' ? undefined : this.#shorten(value, within);
    if (limits.paid < Infinity || limits.awaited <= limits.asked) return this.#cut(last);
    this.#beyond = { events: [event], last };
  }

  /** Returns the part of a text within the limits. */
  #fit({ text, kind }: Delta, { asked, awaited, paid }: Limits): string {
    const limit = this.#beyond === undefined ? asked : awaited;
    if (this.#all === undefined) return this.#meter.take(text, Math.min(limit, paid));
    const payable = this.#all.take(text, paid);
    const isSeen = kind !== DeltaKind.REASONING && kind !== DeltaKind.SUMMARY;
    return isSeen ? this.#meter.take(payable, limit) : payable;
  }

  #cut(last: GenerationEvent | undefined): void {
    if (last !== undefined) this.#next.push(last);
    const cut = this.end.cut(this.#choice, FinishReason.LENGTH, { status: ItemStatus.INCOMPLETE });
    for (const closing of cut) this.#next.push(closing);
  }

  #shorten(value: Delta, text: string): GenerationEvent {
    let length = 0;
    const logprobs = value.logprobs.filter(token => (length += token.token.length) <= text.length);
    return delta(this.#choice, [value.item, value.part], { kind: value.kind, text, logprobs });
  }
}
