import { type GenerationEvent, type Usage, UsageSource } from '../gen/tollgate/v1/event_pb.ts';
import { ServiceTier } from '../gen/tollgate/v1/request_pb.ts';
import { completed, started, usageReported } from '../generation/events.ts';
import type { UpstreamCall } from '../generation/upstream.ts';

/** Answers one call for one answer. */
export type AnswerOne = (call: UpstreamCall) => AsyncIterable<GenerationEvent[]>;

/**
 * Several answers from an upstream that gives one: as many calls at once, each a choice of the answer; usage is their sum. Nothing is said before every one of
 * them has begun, so that one which fails at once can be tried again with nothing lost; one that fails later ends all. Source: decisions §4, §6.
 */
export async function* fanOut(
  call: UpstreamCall,
  answerOne: AnswerOne,
): AsyncGenerator<GenerationEvent[], void, undefined> {
  const { candidates = 1, ...request } = call.request;
  const own = new AbortController();
  const one: UpstreamCall = { ...call, request, signal: AbortSignal.any([call.signal, own.signal]) };
  const answers = Array.from({ length: candidates }, () => answerOne(one)[Symbol.asyncIterator]());
  const merge = new ChoiceMerge(candidates);
  try {
    const firsts = await Promise.all(answers.map(answer => answer.next()));
    const begun = firsts.flatMap((step, choice) => (step.done === true ? [] : merge.push(choice, step.value)));
    if (begun.length > 0) yield begun;
    const next = async (choice: number) => ({ choice, step: await answers[choice]?.next() });
    const pending = new Map(answers.map((_, choice) => [choice, next(choice)] as const));
    while (pending.size > 0) {
      const { choice, step } = await Promise.race(pending.values());
      if (step === undefined || step.done === true) {
        pending.delete(choice);
        continue;
      }
      const events = merge.push(choice, step.value);
      if (events.length > 0) yield events;
      pending.set(choice, next(choice));
    }
  } finally {
    own.abort(new Error('another of the answers has ended'));
    // Those that still run end with the reason above, which nobody needs.
    await Promise.allSettled(answers.map(async answer => answer.return?.()));
  }
}

/** Answers of one choice each as one answer: one start, one end, choices numbered. */
class ChoiceMerge {
  #starts = 0;
  readonly #usages: (Usage | undefined)[];
  readonly #ends: (Usage | undefined)[] = [];
  readonly #count: number;
  #tier: ServiceTier = ServiceTier.UNSPECIFIED;

  constructor(count: number) {
    this.#count = count;
    this.#usages = Array.from({ length: count });
  }

  push(choice: number, batch: readonly GenerationEvent[]): GenerationEvent[] {
    return batch.flatMap(whole => {
      const { event } = whole;
      switch (event.case) {
        case 'started':
          return this.#started(choice, event.value);
        case 'usageReported':
          this.#usages[choice] = event.value.usage;
          return this.#reported();
        case 'completed':
          return this.#completed(event.value);
        default:
          return [{ ...whole, choice }];
      }
    });
  }

  /** The first start is the answer's; when the last call has begun, some have counted the input. */
  #started(
    choice: number,
    { usage, warnings = [], systemFingerprint = '' }: Parameters<typeof started>[0],
  ): GenerationEvent[] {
    this.#starts += 1;
    this.#usages[choice] = usage;
    if (this.#starts === 1) return [started({ warnings: [...warnings], systemFingerprint })];
    return this.#starts === this.#count ? this.#reported() : [];
  }

  /** Counts are of the whole only where every call has given them. */
  #reported(): GenerationEvent[] {
    const usage = sumOf(this.#usages, this.#count);
    return usage === undefined ? [] : [usageReported(usage)];
  }

  #completed({ usage, serviceTier = ServiceTier.UNSPECIFIED }: Parameters<typeof completed>[0]): GenerationEvent[] {
    this.#ends.push(usage);
    if (this.#ends.length === 1 || serviceTier === ServiceTier.PRIORITY) this.#tier = serviceTier;
    if (this.#ends.length < this.#count) return [];
    const total = sumOf(this.#ends, this.#count);
    const counted = total === undefined ? {} : { usage: total, usageSource: UsageSource.REPORTED };
    return [completed({ ...counted, serviceTier: this.#tier })];
  }
}

const counts = [
  'inputTokens',
  'cacheReadTokens',
  'cacheWrite5mTokens',
  'cacheWrite1hTokens',
  'outputTokens',
  'reasoningTokens',
] as const;
/** Without these a sum would be less than what was used. */
const needed: readonly string[] = ['inputTokens', 'outputTokens'];

/** The sum of the usages of all calls; undefined where one has given none. What one of them left out of what everybody has is left out of the sum. */
function sumOf(usages: readonly (Usage | undefined)[], count: number): Usage | undefined {
  const given = usages.filter(usage => usage !== undefined);
  if (given.length < count) return undefined;
  const total: Usage = { $typeName: 'tollgate.v1.Usage' };
  for (const name of counts) {
    const each = given.map(usage => usage[name]);
    const said = each.filter(tokens => tokens !== undefined);
    if (said.length === 0 || (needed.includes(name) && said.length < count)) continue;
    total[name] = said.reduce((sum, tokens) => sum + tokens, 0);
  }
  return total;
}
