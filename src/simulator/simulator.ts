import { FinishReason, type GenerationEvent, type Usage } from '../gen/tollgate/v1/event_pb.ts';
import type { GenerateRequest } from '../gen/tollgate/v1/request_pb.ts';
import { inputTokensMax } from '../generation/check/check-length.ts';
import { completed, started } from '../generation/events.ts';
import { type PortableRequest, refuseLoss, toPortable } from '../generation/portable/portable-request.ts';
import { unknownFields } from '../generation/portable/unknown-fields.ts';
import { loadTokenizer } from '../generation/tokens.ts';
import {
  type RunningAttempt,
  type Upstream,
  type UpstreamCall,
  UpstreamFailure,
  type UpstreamReceiver,
} from '../generation/upstream.ts';
import { pump } from '../lib/push.ts';
import { type Runtime, systemRuntime } from '../lib/runtime.ts';
import { type AnswerSettings, ChoiceWriter } from './answer.ts';
import { echoedPrompt, splitPrompts } from './completion-prompts.ts';
import { countedInput, sumTokens } from './counted-input.ts';
import { LogprobSource } from './logprobs.ts';
import { type SimulatorModel, readCacheMode, simulatorModels } from './models.ts';
import { delayOrFail } from './requested-failure.ts';
import { type ChoiceSteps, type PacedAnswer, paced, yieldToOthers } from './pace.ts';
import { planChoice, planShared } from './plan.ts';
import { type PlanInput, type Prompt, readPrompt } from './prompt.ts';
import { type InputBuckets, PromptCache } from './prompt-cache.ts';
import { verifyReasoning } from './signature.ts';
import { parseSteering } from './steering.ts';
import { Sight } from './vision.ts';
import { readTier, standardTier, toTierFields } from '../generation/service-tier.ts';

/** The options of the simulator. */
export interface SimulatorOptions {
  /** Output tokens a second of each choice; 0: as fast as possible. */
  readonly tokensPerSecond: number;
  /** True if `!sim ` lines steer the answer. False if they are plain text. */
  readonly steering: boolean;
  /** The clock and timers for the pace of answers and the lifetime of cached prompts. Absent: those of the system. */
  readonly runtime?: Runtime;
}

/**
 * Creates the upstream of the built-in models. Failures that a steering line asks for are marked (`requested`), so that they open
 * no circuit breaker. The prompt cache has separate entries for each account.
 */
export function createSimulator(options: SimulatorOptions): Upstream {
  const { runtime = systemRuntime } = options;
  const cache = new PromptCache(runtime);
  const sight = new Sight();
  async function* generate(requested: UpstreamCall, signal: AbortSignal): AsyncGenerator<GenerationEvent[]> {
    const { request, dropped, calls } = readable(requested.request);
    const call = { ...requested, request };
    const waiting = { runtime, signal, accountId: call.accountId };
    signal.throwIfAborted();
    const model = findModel(call.model);
    const steered = (await splitPrompts(request)).map(each => readSteered(each, model, options.steering));
    const { prompt, steering } = lastSteered(steered);
    await delayOrFail(steering, call.attempt, waiting);
    verifyReasoning(request.items);
    const tokenizer = await loadTokenizer();
    const room = inputTokensMax(request, model) ?? Infinity;
    const counted = await countedInput(withItems(request, steered), tokenizer, room, signal);
    // Per account: requests of other accounts must not change what a request costs.
    const owner = `${call.accountId ?? ''} ${model.id}`;
    const input = cache.splitInput(owner, readCacheMode(model), counted, request.cache);
    const imageDescriptions = await sight.describe(prompt.images);
    signal.throwIfAborted();
    const answerId = `${call.hold.id} ${call.attempt}`;
    const plans: PlanInput[] = [];
    for (const each of steered) {
      plans.push({ ...each, ...(await planShared(each)), model: model.id, answerId, imageDescriptions, tokenizer });
      signal.throwIfAborted();
    }
    const answer = await planAnswer(call, model, plans, { input, dropped });
    const events = paced(answer, steering.tps ?? options.tokensPerSecond, waiting);
    if (calls === undefined) yield* events;
    else for await (const batch of events) yield* nonEmpty(calls.restored(batch));
  }
  return {
    mayPause: true,
    generate: (call, receiver) => pushed(signal => generate(call, signal), receiver),
    countTokens: async (request, _model, signal) => {
      signal.throwIfAborted();
      const counted = await countedInput(request, await loadTokenizer(), Infinity, signal);
      return counted.reduce((sum, segment) => sum + sumTokens(segment), 0);
    },
  };
}

/** A request, or one prompt of a legacy completion, with its steering. */
type SteeredRequest = Pick<PlanInput, 'request' | 'prompt' | 'steering'>;

function readSteered(request: GenerateRequest, model: SimulatorModel, steering: boolean): SteeredRequest {
  const prompt = readPrompt(request, steering);
  const line = prompt.steeringLine;
  return { request, prompt, steering: line === undefined ? {} : parseSteering(line, model.maxOutputTokens) };
}

/** Returns the prompt whose steering applies to all: the last one. */
function lastSteered(steered: readonly SteeredRequest[]): SteeredRequest {
  const last = steered.at(-1);
  if (last === undefined) throw new Error('a request without a prompt');
  return last;
}

/** Returns a request with the items of all its prompts, in the form in which the simulator read them. */
function withItems(request: GenerateRequest, steered: readonly SteeredRequest[]): GenerateRequest {
  return steered.length === 1 && steered[0]?.request === request
    ? request
    : { ...request, items: steered.flatMap(each => each.request.items) };
}

/**
 * Splits a request into the part that the simulator reads and the names of the fields that it ignores. Throws for features that can't be
 * translated to the simulator, which has no wire protocol.
 */
function readable(requested: GenerateRequest): PortableRequest {
  const { request, dropped, calls } = toPortable(requested);
  const all = [...new Set([...dropped, ...unknownFields(requested.source)])];
  refuseLoss(requested, all);
  return { request, dropped: all, calls };
}

function nonEmpty(batch: GenerationEvent[]): GenerationEvent[][] {
  return batch.length === 0 ? [] : [batch];
}

/** Pushes the events that a generator yields to the receiver. Cancelling aborts the signal that the generator gets. */
function pushed(
  open: (signal: AbortSignal) => AsyncGenerator<GenerationEvent[]>,
  receiver: UpstreamReceiver,
): RunningAttempt {
  let isCancelled = false;
  const control = pump(open, {
    message: events => receiver.events(events),
    end: failure => {
      if (!isCancelled) receiver.end(failure);
    },
  });
  return {
    cancel: () => {
      isCancelled = true;
      control.cancel();
    },
    pause: () => control.pause(),
    resume: () => control.resume(),
  };
}

/** How many tokens beyond the model's output limit are generated if a steering line says to ignore the limit. */
const ignoredLimitExtra = 1_024;
const systemFingerprint = 'fp_tollgate_simulator';

function findModel(id: string): SimulatorModel {
  const model = simulatorModels.find(each => each.id === id);
  if (model !== undefined) return model;
  throw new UpstreamFailure('status', { status: 404, message: `The simulator has no model "${id}".` });
}

/** The tokens of the input, and the names of the fields that were dropped. */
interface CountedInput {
  readonly input: InputBuckets;
  readonly dropped: readonly string[];
}

/** Returns the planned answer, with its usage. Yields to other requests between choices: if the steering line asks for pauses, each choice first tokenizes its whole text. */
async function planAnswer(
  call: UpstreamCall,
  model: SimulatorModel,
  plans: readonly PlanInput[],
  { input, dropped }: CountedInput,
): Promise<PacedAnswer> {
  const { request } = call;
  const choicesPerPrompt = (request.candidates ?? 1) / plans.length;
  const choices: { readonly writer: ChoiceWriter; readonly steps: ChoiceSteps }[] = [];
  for (const plan of plans) {
    const settings = answerSettings(call, model, plan, input.total);
    for (let nth = 0; nth < choicesPerPrompt; nth += 1) {
      const choice = choices.length;
      if (choice > 0) await yieldToOthers();
      const writer = new ChoiceWriter(choice, settings, logprobSource(request, plan.prompt, choice));
      choices.push({ writer, steps: writer.steps(planChoice(plan, choice)) });
    }
  }
  const isCounted = lastSteered(plans).steering.noUsage !== true;
  return {
    first: started({
      model: model.id,
      systemFingerprint,
      warnings: dropped.length === 0 ? [] : [`dropped=${dropped.join(',')}`],
      ...(isCounted ? { usage: toUsage(input) } : {}),
    }),
    choices: choices.map(choice => choice.steps),
    last: () => {
      const writers = choices.map(choice => choice.writer);
      return completed({
        ...toTierFields(readTier(request) ?? standardTier),
        ...(isCounted ? { usage: toUsage(input, writers) } : {}),
      });
    },
  };
}

function answerSettings(
  call: UpstreamCall,
  model: SimulatorModel,
  { request, steering, tokenizer }: PlanInput,
  inputTokens: number,
): AnswerSettings {
  const ignored = steering.ignore ?? new Set();
  const requested = Math.min(call.maxOutputTokens ?? Infinity, model.maxOutputTokens);
  const wanted = ignored.has('max_tokens') ? model.maxOutputTokens + ignoredLimitExtra : requested;
  const left = Math.max(0, (inputTokensMax(call.request, model) ?? Infinity) - inputTokens);
  return {
    model: model.id,
    endpoint: call.request.endpoint,
    tokenizer,
    limit: Math.min(wanted, left),
    limitReason: left < wanted ? FinishReason.CONTEXT_WINDOW : FinishReason.LENGTH,
    stop: ignored.has('stop') ? [] : call.request.stop,
    faults: steering.faults ?? [],
    echo: echoedPrompt(request),
  };
}

function logprobSource(
  { sampling, include }: GenerateRequest,
  prompt: Prompt,
  choice: number,
): LogprobSource | undefined {
  if (sampling?.logprobs !== true && !include.includes('message.output_text.logprobs')) return undefined;
  return new LogprobSource(`${prompt.seed} ${choice}`, sampling?.topLogprobs ?? 0);
}

/** Returns the usage, with the output that the writers have counted. Without writers it has only the input, as is known before the answer begins. */
function toUsage(input: InputBuckets, writers?: readonly ChoiceWriter[]): Usage {
  const usage: Usage = {
    $typeName: 'tollgate.v1.Usage',
    unpriced: [],
    inputTokens: input.uncached,
    cacheReadTokens: input.read,
    cacheWrite5mTokens: input.write5m,
    cacheWrite1hTokens: input.write1h,
  };
  if (writers === undefined) return usage;
  return {
    ...usage,
    outputTokens: writers.reduce((sum, writer) => sum + writer.outputTokens, 0),
    reasoningTokens: writers.reduce((sum, writer) => sum + writer.reasoningTokens, 0),
  };
}
