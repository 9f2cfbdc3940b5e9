import { createHash } from 'node:crypto';
import { Endpoint, type GenerateRequest, ToolChoiceMode } from '../gen/tollgate/v1/request_pb.ts';
import type { PlannedCall } from './items.ts';
import { type JsonObject, isObject, readObject, parseJson, readStrings } from './json-schema.ts';
import { yieldToOthers } from './pace.ts';
import type { CallDraft, PlanBasis, PlanInput, Prompt } from './prompt.ts';
import { PromptValues, splitName } from './prompt-values.ts';
import { findTopics } from './prose.ts';
import { generateMatch } from './schema-pattern.ts';
import { sampleJson } from './schema-sampler.ts';

/** A tool that the answer can call. */
interface Callable {
  readonly name: string;
  readonly isCustom: boolean;
  readonly description: string;
  /** The schema of a function's parameters, or the format of a custom tool's input; empty if there is none. */
  readonly schema: JsonObject;
}

/** The most calls in one answer, unless a steering line asks for a number. */
const callsMax = 8;

function listCallables(request: GenerateRequest): Callable[] {
  return request.tools.flatMap(({ tool }) => {
    if (tool.case !== 'function' && tool.case !== 'custom') return [];
    const { name, description = '' } = tool.value;
    const json = tool.case === 'custom' ? tool.value.formatJson : tool.value.parametersJson;
    return [{ name, description, isCustom: tool.case === 'custom', schema: objectIn(json) }];
  });
}

function objectIn(json: string): JsonObject {
  const value = parseJson(json);
  return isObject(value) ? value : {};
}

/** The request's rules for tool calls that the simulator follows. */
interface Rule {
  readonly mayCall: boolean;
  readonly mustCall: boolean;
  /** The tools that may be called. */
  readonly allowed: readonly Callable[];
  readonly callsMax: number;
}

function readRule({ request, steering }: PlanBasis): Rule {
  const ignored = steering.ignore ?? new Set();
  const all = listCallables(request);
  const choice = ignored.has('tool_choice') ? undefined : request.toolChoice;
  const named = choice?.tools ?? [];
  const isLimited = choice?.restricted === true || choice?.mode === ToolChoiceMode.NAMED;
  const oneOnly = request.parallelToolCalls === false && !ignored.has('parallel');
  const requested = ignored.has('max_tool_calls') ? Infinity : (request.maxToolCalls ?? Infinity);
  return {
    mayCall: choice?.mode !== ToolChoiceMode.NONE,
    mustCall: choice?.mode === ToolChoiceMode.REQUIRED || choice?.mode === ToolChoiceMode.NAMED,
    allowed: isLimited ? all.filter(tool => named.some(each => each.name === tool.name)) : all,
    callsMax: Math.min(oneOnly ? 1 : Infinity, requested),
  };
}

/** Returns a word without its usual endings, so that "cities" matches "city" and "booked" matches "book". */
function stem(word: string): string {
  return word
    .replace(/ies$/, 'y')
    .replace(/(?<=\p{L}{3})(?:ing|ed|es|s)$/u, '')
    .replace(/e$/, '');
}

function stems(text: string): Set<string> {
  return new Set(
    findTopics(text)
      .flatMap(topic => splitName(topic))
      .map(stem),
  );
}

/** Returns the stems of all words of a text, which may be long. */
function allStems(text: string): Set<string> {
  const words =
    text
      .slice(0, 20_000)
      .toLowerCase()
      .match(/[\p{L}\p{N}]+/gu) ?? [];
  return new Set(words.map(stem));
}

interface Fit {
  readonly tool: Callable;
  /** The words of the tool's name that the text contains. */
  readonly named: ReadonlySet<string>;
  readonly score: number;
}

/** Returns the tools that fit a text, best first. */
function fitting(tools: readonly Callable[], text: string): Fit[] {
  const textStems = allStems(text);
  const fits = tools.map((tool): Fit => {
    const name = stems(splitName(tool.name).join(' '));
    const parameters = Object.keys(readObject(tool.schema, 'properties')).join(' ');
    const about = stems(`${tool.description} ${splitName(parameters).join(' ')}`);
    const named = new Set([...name].filter(word => textStems.has(word)));
    const described = [...about].filter(word => textStems.has(word)).length;
    return { tool, named, score: named.size * 3 + described };
  });
  return fits.filter(fit => fit.score > 0).toSorted((a, b) => b.score - a.score);
}

/** Returns the best tool, and further ones if the text contains words of their names that the other tools' names do not have ("the weather and the time"). */
function chooseRequestedTools(fits: readonly Fit[]): Callable[] {
  const [best, ...others] = fits;
  if (best === undefined) return [];
  const chosen = [best.tool];
  const covered = new Set(best.named);
  for (const { tool, named } of others) {
    if (best.named.size === 0 || ![...named].some(word => !covered.has(word))) continue;
    for (const word of named) covered.add(word);
    chosen.push(tool);
  }
  return chosen;
}

/** Returns true if a tool takes one name at a time, so that "Paris and Rome" are two calls. */
function takesOneName({ schema }: Callable): boolean {
  const properties = readObject(schema, 'properties');
  const required = readStrings(schema, 'required');
  const plain = (required.length > 0 ? required : Object.keys(properties)).filter(name => {
    const { type, enum: allowed } = readObject(properties, name);
    return type === 'string' && allowed === undefined;
  });
  return plain.length === 1;
}

/** The most characters between two names of a list. */
const betweenMax = 40;

/** Returns whether names form a list in the text. */
function isListed(names: readonly string[], text: string): boolean {
  return names.slice(1).every((name, at) => {
    const start = text.indexOf(names[at] ?? '') + (names[at] ?? '').length;
    const between = text.slice(start, text.indexOf(name, start));
    return (
      between.length <= betweenMax &&
      /^\s*(?:,|and|or|&|vs\.?|versus|,\s*and|,\s*or|und|et|y|e)?\s*(?:(?:the weather )?(?:in|of|for|to)\s+)?$/i.test(
        between,
      )
    );
  });
}

/** A tool to call, and which of the names in the text the call is about. */
interface Chosen {
  readonly tool: Callable;
  readonly skip: number;
}

function chooseFreely(rule: Rule, text: string): Chosen[] {
  const requested = chooseRequestedTools(fitting(rule.allowed, text));
  const saysTool = /\b(?:use|call|invoke|run)\b.{0,40}\b(?:tools?|functions?)\b/i.test(text);
  const [first] = rule.allowed;
  if (requested.length === 0 && first !== undefined && (rule.mustCall || saysTool)) requested.push(first);
  const { names } = new PromptValues(text);
  return requested.flatMap(tool => {
    if (names.length < 2 || !takesOneName(tool) || !isListed(names, text)) return [{ tool, skip: 0 }];
    return names.map((_, skip) => ({ tool, skip }));
  });
}

/** Returns as many calls as the steering line asks for: to fitting tools first, then to the others, then from the beginning again. */
function chooseRequestedCalls(rule: Rule, input: PlanBasis, count: number): Chosen[] {
  const fits = fitting(rule.allowed, input.prompt.text).map(fit => fit.tool);
  const ranked = [...fits, ...rule.allowed.filter(tool => !fits.includes(tool))];
  // If the line says to ignore the tool choice, a forbidden tool is called to show it.
  const named = input.request.toolChoice?.tools ?? [];
  if (input.steering.ignore?.has('tool_choice') === true) {
    const isNamed = (tool: Callable): number => Number(named.some(({ name }) => name === tool.name));
    ranked.sort((a, b) => isNamed(a) - isNamed(b));
  }
  return Array.from({ length: count }, (_, at) => {
    const tool = ranked[at % ranked.length];
    return tool === undefined ? [] : [{ tool, skip: Math.floor(at / ranked.length) }];
  }).flat();
}

function choose(input: PlanBasis): Chosen[] {
  const { prompt, steering } = input;
  const rule = readRule(input);
  if (!rule.mayCall) return [];
  if (steering.calls !== undefined && !prompt.hasResultSince) {
    return chooseRequestedCalls(rule, input, steering.calls).slice(0, rule.callsMax);
  }
  const isAnswering =
    prompt.results.length > 0 || prompt.explainsResult || steering.say !== undefined || steering.tokens !== undefined;
  if (!rule.mustCall && (isAnswering || steering.calls !== undefined)) return [];
  return chooseFreely(withoutCalled(rule, prompt), prompt.text).slice(0, Math.min(callsMax, rule.callsMax));
}

/**
 * Removes tools that were already called in this turn, as long as others are left. Otherwise a forced call would call the
 * first tool forever.
 */
function withoutCalled(rule: Rule, { called }: Prompt): Rule {
  const fresh = rule.allowed.filter(({ name }) => !called.has(name));
  return fresh.length === 0 ? rule : { ...rule, allowed: fresh };
}

function customInput({ schema: { syntax, definition } }: Callable, values: PromptValues): string {
  const spelled = syntax === 'regex' && typeof definition === 'string' ? generateMatch(definition) : undefined;
  return spelled ?? values.phrase() ?? 'nothing';
}

/**
 * Returns the calls, which are the same in every choice, in order; empty if the answer is text. Lets others run between calls, because one
 * can take milliseconds.
 */
export async function draftCalls(input: PlanBasis): Promise<CallDraft[]> {
  const drafts: CallDraft[] = [];
  for (const { tool, skip } of choose(input)) {
    if (drafts.length > 0) await yieldToOthers();
    const values = new PromptValues(input.prompt.text, skip);
    drafts.push({
      name: tool.name,
      isCustom: tool.isCustom,
      // The arguments of a function are always an object, even if its schema does not say so.
      arguments: tool.isCustom
        ? customInput(tool, values)
        : JSON.stringify(sampleJson({ type: 'object', ...tool.schema }, values)),
    });
  }
  return drafts;
}

/** Gives the calls of a choice their ids, which are made from `seed` and never repeat within a conversation. */
export function nameCalls(input: PlanInput, seed: string): PlannedCall[] {
  // Ids have the prefix that an upstream with the client's protocol would use.
  const prefix = input.request.endpoint === Endpoint.MESSAGES ? 'toolu' : 'call';
  return input.calls.map((draft, at) => {
    const id = createHash('sha256')
      .update(`call ${seed} ${input.answerId} ${at}`)
      .digest('base64url')
      .replace(/[-_]/g, 'x')
      .slice(0, 24);
    return { callId: `${prefix}_${id}`, ...draft };
  });
}
