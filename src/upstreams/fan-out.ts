import { type GenerationEvent, type Usage, UsageSource } from '../gen/tollgate/v1/event_pb.ts';
import { type GenerateRequest, ServiceTier } from '../gen/tollgate/v1/request_pb.ts';
import { completed, started, usageReported } from '../generation/events.ts';
import type { RunningAttempt, UpstreamCall, UpstreamReceiver } from '../generation/upstream.ts';
import type { TierFields } from '../generation/service-tier.ts';

/** Begins an attempt for one choice. */
export type AttemptOne = (call: UpstreamCall, receiver: UpstreamReceiver) => RunningAttempt;

/**
 * Gets several choices from an upstream that returns one per request: makes concurrent calls, each of which becomes a choice of the answer; the usage is their sum. Nothing is passed on before every call has begun to answer, so that if one fails immediately, the attempt can be repeated. If a call fails later, all end.
 */
export class FanOut implements RunningAttempt {
  readonly #receiver: UpstreamReceiver;
  readonly #merge: ChoiceMerge;
  readonly #attempts: RunningAttempt[] = [];
  /** The output of each choice until all have begun; undefined: the choice has not begun. */
  readonly #begun: (GenerationEvent[] | undefined)[];
  #hasBegun = false;
  #running: number;
  #isPaused = false;
  #isOver = false;

  /** Makes the calls. */
  constructor(call: UpstreamCall, receiver: UpstreamReceiver, attemptOne: AttemptOne) {
    const { candidates = 1, ...request } = call.request;
    this.#receiver = receiver;
    this.#merge = new ChoiceMerge(candidates);
    this.#begun = Array.from({ length: candidates });
    this.#running = candidates;
    for (let choice = 0; choice < candidates; choice += 1) {
      const one: UpstreamCall = { ...call, request: withSeed(request, choice) };
      const to = { events: this.#take.bind(this, choice), end: this.#end.bind(this, choice) };
      this.#attempts.push(attemptOne(one, to));
    }
  }

  cancel(): void {
    this.#isOver = true;
    for (const attempt of this.#attempts) attempt.cancel();
  }

  pause(): void {
    this.#isPaused = true;
    for (const attempt of this.#attempts) attempt.pause();
  }

  resume(): void {
    this.#isPaused = false;
    if (this.#hasBegun) for (const attempt of this.#attempts) attempt.resume();
  }

  #take(choice: number, events: GenerationEvent[]): void {
    if (this.#hasBegun) {
      this.#show(this.#merge.push(choice, events));
      return;
    }
    (this.#begun[choice] ??= []).push(...events);
    // Paused until the other calls have begun.
    this.#attempts[choice]?.pause();
    this.#beginIfAll();
  }

  #end(choice: number, failure: Error | undefined): void {
    if (this.#isOver) return;
    if (failure !== undefined) {
      this.cancel();
      this.#receiver.end(failure);
      return;
    }
    this.#running -= 1;
    this.#begun[choice] ??= [];
    this.#beginIfAll();
    if (this.#running > 0 || this.#isOver) return;
    this.#isOver = true;
    this.#receiver.end();
  }

  #beginIfAll(): void {
    if (this.#hasBegun || this.#begun.includes(undefined)) return;
    this.#hasBegun = true;
    const begun = this.#begun.flatMap((events, choice) => this.#merge.push(choice, events ?? []));
    this.#begun.length = 0;
    if (!this.#isPaused) this.resume();
    this.#show(begun);
  }

  #show(events: GenerationEvent[]): void {
    if (events.length > 0) this.#receiver.events(events);
  }
}

/**
 * Returns the request of one choice, with a different seed, because with the same seed all choices would be equal. Source: docs/interfaces/chat-completions.md "Several
 * choices".
 */
function withSeed(request: GenerateRequest, choice: number): GenerateRequest {
  const { sampling } = request;
  if (choice === 0 || sampling?.seed === undefined) return request;
  const seed = BigInt.asIntN(64, sampling.seed + BigInt(choice));
  return { ...request, sampling: { ...sampling, seed } };
}

/** Merges answers that have one choice each into one answer with numbered choices, one start and one end. */
class ChoiceMerge {
  #starts = 0;
  readonly #usages: (Usage | undefined)[];
  readonly #ends: (Usage | undefined)[] = [];
  readonly #count: number;
  #tier: TierFields = { serviceTier: ServiceTier.UNSPECIFIED };

  constructor(count: number) {
    this.#count = count;
    this.#usages = Array.from({ length: count });
  }

  push(choice: number, batch: readonly GenerationEvent[]): GenerationEvent[] {
    return batch.flatMap(whole => {
      const { event } = whole;
      switch (event.case) {
        case 'started':
          return this.#mergeStart(choice, event.value);
        case 'usageReported':
          this.#usages[choice] = event.value.usage;
          return this.#mergeReports();
        case 'completed':
          return this.#mergeCompleted(event.value);
        default:
          return [{ ...whole, choice }];
      }
    });
  }

  /** Returns the start of the answer when the first call begins. When the last call has begun, returns the usage that the calls have reported so far. */
  #mergeStart(
    choice: number,
    { usage, warnings = [], systemFingerprint = '', route = '' }: Parameters<typeof started>[0],
  ): GenerationEvent[] {
    this.#starts += 1;
    this.#usages[choice] = usage;
    if (this.#starts === 1) return [started({ warnings: [...warnings], systemFingerprint, route })];
    return this.#starts === this.#count ? this.#mergeReports() : [];
  }

  /** Returns the sum of the reported counts, if every call has reported them; otherwise it would not cover the whole answer. */
  #mergeReports(): GenerationEvent[] {
    const usage = sumUsage(this.#usages, this.#count);
    return usage === undefined ? [] : [usageReported(usage)];
  }

  #mergeCompleted({
    usage,
    serviceTier = ServiceTier.UNSPECIFIED,
    tierName,
  }: Parameters<typeof completed>[0]): GenerationEvent[] {
    this.#ends.push(usage);
    const isDear = serviceTier === ServiceTier.PRIORITY || serviceTier === ServiceTier.NAMED;
    if (this.#ends.length === 1 || isDear) this.#tier = { serviceTier, ...(tierName !== undefined && { tierName }) };
    if (this.#ends.length < this.#count) return [];
    const total = sumUsage(this.#ends, this.#count);
    const counted = total === undefined ? {} : { usage: total, usageSource: UsageSource.REPORTED };
    return [completed({ ...counted, ...this.#tier })];
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
/** The counts without which a sum would be less than what was used. */
const needed: readonly string[] = ['inputTokens', 'outputTokens'];

/** Returns the sum of the usages of all calls; undefined if a call has none. A count that one of them lacks is left out. */
function sumUsage(usages: readonly (Usage | undefined)[], count: number): Usage | undefined {
  const given = usages.filter(usage => usage !== undefined);
  if (given.length < count) return undefined;
  const total: Usage = { $typeName: 'tollgate.v1.Usage', unpriced: given.flatMap(({ unpriced }) => unpriced) };
  for (const name of counts) {
    const each = given.map(usage => usage[name]);
    const known = each.filter(tokens => tokens !== undefined);
    if (known.length === 0 || (needed.includes(name) && known.length < count)) continue;
    total[name] = known.reduce((sum, tokens) => sum + tokens, 0);
  }
  return total;
}
