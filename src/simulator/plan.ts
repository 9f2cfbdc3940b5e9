import type { ToolResult } from '../gen/tollgate/v1/content_pb.ts';
import {
  Endpoint,
  type GenerateRequest,
  OutputFormatType,
  ReasoningEffort,
  ThinkingMode,
} from '../gen/tollgate/v1/request_pb.ts';
import type { Tokenizer } from '../generation/tokens.ts';
import type { ChoicePlan, PlannedReasoning, PlannedText } from './answer.ts';
import { type PlanBasis, type PlanInput, type Prompt, joinTexts } from './prompt.ts';
import { prose, toQuote, sentencesAbout, findTopics } from './prose.ts';
import { PromptValues } from './prompt-values.ts';
import { SeededRandom } from './random.ts';
import { sampleText } from './schema-sampler.ts';
import { draftCalls, nameCalls } from './tool-calls.ts';

/**
 * The number of reasoning tokens for each effort: a hundredth of those in docs/interfaces/README.md "Effort and thinking budgets", so
 * that answers are quick.
 */
const effortTokens: Readonly<Record<number, number>> = {
  [ReasoningEffort.MINIMAL]: 12,
  [ReasoningEffort.LOW]: 24,
  [ReasoningEffort.MEDIUM]: 48,
  [ReasoningEffort.HIGH]: 160,
  [ReasoningEffort.XHIGH]: 320,
  [ReasoningEffort.MAX]: 480,
};
const adaptiveTokens = 48;
/** The part of a thinking budget that is used. */
const budgetShare = 1 / 64;

function reasoningTokens(request: GenerateRequest): number {
  const { effort = 0, thinking = 0, budgetTokens } = request.reasoning ?? {};
  if (effort === ReasoningEffort.NONE || thinking === ThinkingMode.DISABLED) return 0;
  const budget = budgetTokens ?? Infinity;
  const byEffort = effortTokens[effort];
  if (byEffort !== undefined) return Math.min(byEffort, budget);
  if (thinking === ThinkingMode.UNSPECIFIED) return 0;
  if (thinking === ThinkingMode.ENABLED && budgetTokens !== undefined) {
    return Math.min(budget, Math.max(16, Math.ceil(budgetTokens * budgetShare)));
  }
  return Math.min(adaptiveTokens, budget);
}

function* reasoningText(prompt: Prompt, seed: string): Generator<string> {
  yield `The question is “${toQuote(prompt.text, 100)}”.`;
  if (prompt.results.length > 0) yield ' The tools have answered, so their results come first.';
  yield* sentencesAbout(findTopics(prompt.text), new SeededRandom(`thoughts ${seed}`));
}

function planReasoning({ request, prompt }: PlanInput, seed: string): PlannedReasoning | undefined {
  const tokensMax = reasoningTokens(request);
  // An answer that is continued already has its reasoning.
  if (tokensMax === 0 || prompt.begun !== '') return undefined;
  const { summary, display, thinking } = request.reasoning ?? {};
  const isSigned = request.endpoint === Endpoint.MESSAGES || (thinking ?? 0) !== ThinkingMode.UNSPECIFIED;
  const shown = summary === undefined ? 'reasoning' : 'summary';
  return {
    chunks: reasoningText(prompt, seed),
    tokensMax,
    form: display === 'omitted' ? 'hidden' : shown,
    seal: isSigned ? 'anthropic.signature' : 'openai.encrypted',
  };
}

function finding(result: ToolResult): string {
  const quoted = toQuote(joinTexts(result.parts, ' '), 400);
  const tool = result.name === '' ? 'The tool' : `The tool ${result.name}`;
  if (result.isError) return `${tool} failed: ${quoted === '' ? 'it did not say why' : quoted}.`;
  return quoted === '' ? `${tool} answered nothing.` : `${tool} answered: ${quoted}.`;
}

function jsonText({ request, prompt, schemaText }: PlanInput, seed: string): string | undefined {
  switch (request.outputFormat?.type) {
    case OutputFormatType.JSON_SCHEMA:
      return schemaText;
    case OutputFormatType.JSON_OBJECT: {
      const findings = prompt.results.map(finding);
      const answer = Array.from(prose({ text: prompt.text, findings, seed })).join('');
      return JSON.stringify({ topics: findTopics(prompt.text).slice(0, 5), answer: toQuote(answer, 600) });
    }
    default:
      return undefined;
  }
}

function planText(input: PlanInput, seed: string): PlannedText {
  const { prompt, steering, imageDescriptions } = input;
  const kind = 'text';
  if (steering.say !== undefined) return { kind, chunks: [steering.say] };
  const json = jsonText(input, seed);
  if (json !== undefined) return { kind, chunks: [json] };
  const files = prompt.files.map(name => `The file ${name} has come; this model does not read its layout.`);
  const facts = { text: prompt.text, findings: [...prompt.results.map(finding), ...imageDescriptions, ...files], seed };
  const deltasMin = Math.max(...(steering.faults ?? []).map(fault => fault.afterDeltas), -1);
  const tokens = steering.tokens ?? (deltasMin < 0 ? undefined : deltasMin + 8);
  if (tokens === undefined) return { kind, chunks: prose(facts) };
  return { kind, chunks: prose({ ...facts, length: { unit: 'endless' } }), tokens };
}

/** How often an answer pauses if the steering line asks for pauses; then it continues to its end. */
const pauses = 2;

/**
 * Returns the next part of an answer that pauses twice. The core sends the request again with the output so far at its end, which shows what
 * the next part is. So nothing has to be stored between the calls.
 */
function pausedPart(text: PlannedText, begun: string, tokenizer: Tokenizer): { text?: PlannedText; isLast: boolean } {
  const { chunks, tokens = Infinity } = text;
  const pieces: string[] = [];
  let count = 0;
  for (const chunk of chunks) {
    for (const piece of tokenizer.pieces(chunk)) {
      if (count >= tokens) break;
      count += piece.tokens;
      pieces.push(piece.text);
    }
    if (count >= tokens) break;
  }
  let start = 0;
  for (let length = begun.length; start < pieces.length && length > 0; start += 1) length -= pieces[start]?.length ?? 0;
  const left = pieces.length - start;
  const first = Math.ceil(pieces.length / (pauses + 1));
  // The remaining parts share the remaining text.
  const partsLeft = start === 0 ? pauses + 1 : start < first + Math.ceil((pieces.length - first) / pauses) ? pauses : 1;
  const isLast = partsLeft === 1 || left === 0;
  const shown = pieces.slice(start, isLast ? undefined : start + Math.ceil(left / partsLeft));
  // If no text is left, there is no text block, because the Messages interface refuses an empty one when it is sent back.
  if (shown.length === 0 && begun !== '') return { isLast };
  return { text: { kind: text.kind, chunks: [shown.join('')] }, isLast };
}

/** Plans what all choices have in common, which is most of the work. Lets others run in between. */
export async function planShared(basis: PlanBasis): Promise<Pick<PlanInput, 'calls' | 'schemaText'>> {
  const { request, prompt, steering } = basis;
  if (steering.finish === 'refusal') return { calls: [], schemaText: undefined };
  const calls = await draftCalls(basis);
  const format = request.outputFormat;
  if (calls.length > 0 || steering.say !== undefined || format?.type !== OutputFormatType.JSON_SCHEMA)
    return { calls, schemaText: undefined };
  return { calls, schemaText: sampleText(format.schemaJson, new PromptValues(prompt.text)) };
}

/** Plans the content of a choice. */
export function planChoice(input: PlanInput, choice: number): ChoicePlan {
  const { prompt, steering, model, tokenizer } = input;
  const { finish, say } = steering;
  const seed = `${model} ${prompt.seed} ${choice}`;
  const reasoning = planReasoning(input, seed);
  if (finish === 'refusal') {
    const text: PlannedText = { kind: 'refusal', chunks: [say ?? 'I’m sorry, but I can’t help with that.'] };
    return { reasoning, text, calls: [], finish };
  }
  const calls = nameCalls(input, seed);
  if (calls.length > 0) {
    const text = say === undefined ? undefined : planText(input, seed);
    return { reasoning, text, calls, finish: finish === 'pause' ? undefined : finish };
  }
  const text = planText(input, seed);
  if (finish !== 'pause') return { reasoning, text, calls, finish };
  const part = pausedPart(text, prompt.begun, tokenizer);
  return { reasoning, text: part.text, calls, finish: part.isLast ? 'stop' : 'pause' };
}
