import { Protocol } from '../../gen/tollgate/v1/content_pb.ts';
import {
  type GenerateRequest,
  OutputFormatType,
  ReasoningEffort,
  ThinkingMode,
  type Tool,
  type ToolChoice,
  ToolChoiceMode,
} from '../../gen/tollgate/v1/request_pb.ts';
import { fieldName, reasoningName } from '../../generation/check/field-names.ts';
import type { EncodedRequest, EncodeInput, Json, JsonObject } from '../codec.ts';
import { cacheMember } from '../cache-hint.ts';
import { Drops, dropUnknown, isPrefill, unsupported, unsupportedContent, unsupportedTool } from '../drops.ts';
import { toBudget, effortName, toEffort } from '../effort.ts';
import { defined, fieldJson, listIn, objectIn } from '../json.ts';
import { dropGrammar, freeText, clientToolName } from '../free-form.ts';
import { tierName } from '../service-tier.ts';
import { limitCacheHints } from './cache-limit.ts';
import { asContent, encodeMessages } from './encode-messages.ts';
import { extras } from './extras.ts';
import { type ModelTraits, findTraits } from './model-traits.ts';
import { patchedRequest, thinkingBudgetMin } from './patch-request.ts';
import { dropLoopReasoning, lacksReasoning } from './thinking-loop.ts';

/**
 * Encodes the body for a Messages upstream. The JSON of a Messages client is patched, so that nothing in it is lost; any other request is
 * built from the `GenerateRequest`. The same input gives the same bytes. Sources: docs/interfaces/README.md
 * "Translation", "Refused, listed or dropped". Throws `unsupported_parameter`.
 */
export function encodeRequest(input: EncodeInput): EncodedRequest {
  const drops = new Drops();
  const { source } = input.request;
  if (source?.protocol === Protocol.MESSAGES) {
    return { ...patchedRequest(input, source, drops), dropped: drops.list() };
  }
  const body = built(input, drops);
  dropUnknown(source, drops);
  return { body, dropped: drops.list() };
}

/** The limit to send if neither the client nor the configuration sets one, because the protocol requires it. */
const outputTokensDefault = 4_096;

function built(input: EncodeInput, drops: Drops): JsonObject {
  const { request, model, stream, provider } = input;
  refuse(request);
  const traits = findTraits(model);
  const limit = input.maxOutputTokens ?? input.modelOutputTokens ?? outputTokensDefault;
  const requested = withoutThinkingIfForced(request, encodeThinking(request, { traits, limit }, drops), {
    traits,
    drops,
  });
  const { system, messages } = encodeMessages(request, drops, provider);
  const thinking = traits.checksEarlierReasoning ? thinkingInLoop(request, { requested, messages }, drops) : requested;
  const body: JsonObject = { model, max_tokens: limit };
  const instructed = withFormat(request, system, drops);
  if (instructed !== undefined) body['system'] = instructed;
  body['messages'] = messages.map(message => ({ ...message, content: asContent(message['content'] as JsonObject[]) }));
  Object.assign(body, encodeTools(request, traits, drops));
  Object.assign(body, thinking);
  const format = encodeFormat(request);
  if (format !== undefined && !traits.schemas) {
    addAnswerTool(request, { body, schema: format.schema, isThinking: isThinking(thinking) }, drops);
  } else if (format !== undefined) body['output_config'] = { ...objectIn(body['output_config']), format };
  setSampling(request, { body, traits, isThinking: isThinking(thinking) }, drops);
  const stops = request.stop.filter(text => text.trim() !== '');
  if (stops.length > 0) body['stop_sequences'] = stops;
  const tier = tierName(request);
  if (tier !== undefined) body['service_tier'] = tier;
  if (request.user !== undefined) body['metadata'] = { user_id: request.user };
  Object.assign(body, cacheMember(request.cache));
  if (request.source !== undefined) limitCacheHints(body);
  if (stream) body['stream'] = true;
  return body;
}

/** Throws for fields whose loss would change the client's result. */
function refuse(request: GenerateRequest): void {
  const { sampling, source } = request;
  if (source !== undefined && isPrefill(request.items)) {
    throw unsupportedContent(request, 'a last message of the assistant');
  }
  const isIncluded = request.include.includes('message.output_text.logprobs');
  if (sampling?.logprobs === true || isIncluded) {
    throw unsupported(isIncluded ? 'include' : 'logprobs', 'log probabilities');
  }
  if (sampling !== undefined && Object.keys(sampling.logitBias).length > 0) {
    throw unsupported('logit_bias', 'biased tokens');
  }
  if ((request.candidates ?? 1) > 1) {
    throw unsupported(fieldName(request.endpoint, 'candidates'), 'more than one answer to a request');
  }
}

/** The model's traits, for the fields that depend on them. */
interface Situation {
  readonly traits: ModelTraits;
  readonly limit: number;
}

/** Encodes `thinking` and `output_config.effort`. Source: docs/interfaces/README.md "Effort and thinking budgets". */
function encodeThinking(request: GenerateRequest, { traits, limit }: Situation, drops: Drops): JsonObject {
  const { reasoning } = request;
  if (reasoning === undefined) return {};
  const { effort, thinking, budgetTokens, display } = reasoning;
  const shown = display === undefined ? {} : { display };
  const field = fieldName(request.endpoint, 'reasoning');
  if (thinking === ThinkingMode.DISABLED || effort === ReasoningEffort.NONE) {
    if (traits.canDisableThinking) return { thinking: { type: 'disabled' }, ...effortMember(effort) };
    drops.add(field);
    return {};
  }
  if (thinking === ThinkingMode.ADAPTIVE) return { thinking: { type: 'adaptive', ...shown }, ...effortMember(effort) };
  if (thinking === ThinkingMode.BETWEEN_TOOLS) {
    return { thinking: { type: 'between_tools', ...shown }, ...effortMember(effort) };
  }
  if (thinking === ThinkingMode.UNSPECIFIED && effort === ReasoningEffort.UNSPECIFIED) return {};
  if (traits.thinking === 'effort') {
    const requested = effort === ReasoningEffort.UNSPECIFIED ? toEffort(budgetTokens ?? 0) : effort;
    return { thinking: { type: 'adaptive', ...shown }, ...effortMember(requested) };
  }
  const budget = Math.min(budgetTokens ?? toBudget(effort), limit - 1);
  if (budget < thinkingBudgetMin) {
    drops.add(field);
    return {};
  }
  const kept = thinking === ThinkingMode.ENABLED ? effortMember(effort) : {};
  return { thinking: { type: 'enabled', budget_tokens: budget, ...shown }, ...kept };
}

interface ForcedSituation {
  readonly traits: ModelTraits;
  readonly drops: Drops;
}

/**
 * Drops the thinking of a request that forces a call: some models refuse both together, and the client needs the call. Source:
 * docs/interfaces/README.md "Refused, listed or dropped".
 */
function withoutThinkingIfForced(
  request: GenerateRequest,
  requested: JsonObject,
  { traits, drops }: ForcedSituation,
): JsonObject {
  if (request.source === undefined || !isForced(request.toolChoice) || !isThinking(requested)) return requested;
  drops.add(fieldName(request.endpoint, 'reasoning'));
  // Models whose thinking is set by effort may think even if no thinking was requested.
  return traits.thinking === 'effort' && traits.canDisableThinking ? { thinking: { type: 'disabled' } } : {};
}

function isForced(choice: ToolChoice | undefined): boolean {
  return choice?.mode === ToolChoiceMode.REQUIRED || choice?.mode === ToolChoiceMode.NAMED;
}

interface LoopThinking {
  readonly requested: JsonObject;
  readonly messages: readonly JsonObject[];
}

/** Decides whether the requested thinking and the earlier reasoning are kept while a loop of calls continues: both or neither. */
function thinkingInLoop(request: GenerateRequest, { requested, messages }: LoopThinking, drops: Drops): JsonObject {
  if (request.source === undefined) return requested;
  const isOn = isThinking(requested);
  if (isOn ? !lacksReasoning(messages) : !dropLoopReasoning(messages)) return requested;
  drops.add(isOn ? fieldName(request.endpoint, 'reasoning') : reasoningName(request.endpoint));
  return isOn ? {} : requested;
}

function effortMember(effort: ReasoningEffort): JsonObject {
  // The lowest effort of the protocol is `low`; effort NONE is encoded as disabled thinking.
  const name = effort === ReasoningEffort.MINIMAL ? 'low' : effortName(effort);
  return name === undefined || name === 'none' ? {} : { output_config: { effort: name } };
}

function isThinking(members: JsonObject): boolean {
  const thinking = objectIn(members['thinking']);
  return thinking !== undefined && thinking['type'] !== 'disabled';
}

interface SamplingTarget {
  readonly body: JsonObject;
  readonly traits: ModelTraits;
  readonly isThinking: boolean;
}

/** Sets the sampling fields that the protocol has and the model accepts (a model that thinks accepts none); the others are dropped and listed. */
function setSampling({ sampling, source }: GenerateRequest, target: SamplingTarget, drops: Drops): void {
  if (sampling === undefined) return;
  const { temperature, topP, topK, frequencyPenalty, presencePenalty, seed } = sampling;
  const isOwn = source === undefined;
  const isAllTaken = target.traits.sampling && (isOwn || !target.isThinking);
  const isPairTaken = isOwn || target.traits.samplingPair || temperature === undefined;
  const named = { temperature, top_p: topP, top_k: topK };
  for (const [name, value] of Object.entries(named)) {
    if (value === undefined) continue;
    const isTaken = isAllTaken && (name !== 'top_p' || isPairTaken);
    if (isTaken) target.body[name] = Math.min(value, name === 'temperature' ? 1 : Infinity);
    if (!isTaken || (name === 'temperature' && value > 1)) drops.add(name);
  }
  if (frequencyPenalty !== undefined && frequencyPenalty !== 0) drops.add('frequency_penalty');
  if (presencePenalty !== undefined && presencePenalty !== 0) drops.add('presence_penalty');
  if (seed !== undefined) drops.add('seed');
}

function encodeFormat({ outputFormat }: GenerateRequest): { type: string; schema: JsonObject } | undefined {
  if (outputFormat?.type !== OutputFormatType.JSON_SCHEMA) return undefined;
  return { type: 'json_schema', schema: encodeSchema(outputFormat.schemaJson, true) };
}

interface AnswerToolTarget {
  readonly body: JsonObject;
  readonly schema: JsonObject;
  readonly isThinking: boolean;
}

/**
 * Sends the schema as a tool to a model without schema support; the arguments of its call are the answer. If the client itself forces a
 * call, there is no answer to format.
 */
function addAnswerTool(
  request: GenerateRequest,
  { body, schema, isThinking: thinks }: AnswerToolTarget,
  drops: Drops,
): void {
  drops.add(fieldName(request.endpoint, 'output_format'));
  const mode = request.toolChoice?.mode;
  if (mode === ToolChoiceMode.REQUIRED || mode === ToolChoiceMode.NAMED) return;
  const tool = {
    name: answerToolName,
    description: 'Gives the final answer. Call it once, with the whole answer, instead of writing text.',
    input_schema: schema,
  };
  const own = mode === ToolChoiceMode.NONE ? [] : listIn(body['tools']);
  body['tools'] = [...own, tool];
  // A model that reasons refuses a forced call.
  if (thinks) delete body['tool_choice'];
  else body['tool_choice'] = own.length === 0 ? { type: 'tool', name: answerToolName } : { type: 'any' };
}

/** The name of the tool whose call is the answer, for models without schema support. */
export const answerToolName = 'tollgate_final_answer';

/** Returns the system prompt. A JSON object without a schema can be requested only in words, which are added here. */
function withFormat(request: GenerateRequest, system: Json | undefined, drops: Drops): Json | undefined {
  if (request.outputFormat?.type !== OutputFormatType.JSON_OBJECT) return system;
  drops.add(fieldName(request.endpoint, 'output_format'));
  const requested = { type: 'text', text: 'Answer with one JSON object and nothing else.' };
  if (system === undefined) return requested.text;
  return [...(typeof system === 'string' ? [{ type: 'text', text: system }] : (system as JsonObject[])), requested];
}

function encodeTools(request: GenerateRequest, traits: ModelTraits, drops: Drops): JsonObject {
  const { toolChoice, parallelToolCalls } = request;
  if (request.tools.length === 0) return {};
  const allowed = toolChoice?.restricted === true ? new Set(toolChoice.tools.map(({ name }) => name)) : undefined;
  const offered =
    allowed === undefined ? request.tools : request.tools.filter(tool => allowed.has(clientToolName(tool)));
  const tools = offered.map((tool, index) => encodeTool(tool, { path: `tools.${index}`, request }, drops));
  const choice = encodeChoice(request, traits);
  if (choice === undefined && parallelToolCalls !== false) return { tools };
  const rule = choice ?? { type: 'auto' };
  const isNone = rule['type'] === 'none';
  const parallel = parallelToolCalls === undefined || isNone ? {} : { disable_parallel_tool_use: !parallelToolCalls };
  return { tools, tool_choice: { ...rule, ...parallel } };
}

function encodeChoice({ toolChoice }: GenerateRequest, traits: ModelTraits): JsonObject | undefined {
  if (toolChoice === undefined) return undefined;
  if (isForced(toolChoice) && !traits.forcedToolChoice) throw unsupported('tool_choice', 'a forced call');
  switch (toolChoice.mode) {
    case ToolChoiceMode.NONE:
      return { type: 'none' };
    case ToolChoiceMode.REQUIRED:
      return { type: 'any' };
    case ToolChoiceMode.NAMED:
      return { type: 'tool', name: toolChoice.tools[0]?.name ?? '' };
    default:
      return { type: 'auto' };
  }
}

interface ToolPlace {
  readonly path: string;
  readonly request: GenerateRequest;
}

function encodeTool(tool: Tool, { path, request }: ToolPlace, drops: Drops): JsonObject {
  const { tool: content } = tool;
  const members = { ...extras.members(tool.extra), ...cacheMember(tool.cache) };
  switch (content.case) {
    case 'function': {
      const { name, description, parametersJson, strict } = content.value;
      const isOwn = request.source === undefined;
      if (strict === true && !isOwn) drops.add(`${path}.strict`);
      const input_schema = encodeSchema(parametersJson, isOwn);
      return { ...defined({ name, description, input_schema, strict: isOwn ? strict : undefined }), ...members };
    }
    case 'custom': {
      const { name, description } = content.value;
      dropGrammar(content.value, path, drops);
      return { ...defined({ name, description, input_schema: freeText }), ...members };
    }
    default: {
      const own = content.case === 'hosted' ? extras.own(content.value) : undefined;
      if (own === undefined) throw unsupportedTool(tool, path);
      return own;
    }
  }
}

/**
 * Returns the schema of a tool's input, which must be an object (translation case CH-10). `asIs`: a client of this protocol sent it, and it is not
 * changed.
 */
function encodeSchema(json: string, asIs: boolean): JsonObject {
  const schema = fieldJson(json);
  if (schema === undefined) return { type: 'object', properties: {} };
  return asIs || typeof schema['type'] === 'string' ? schema : { type: 'object', ...schema };
}
