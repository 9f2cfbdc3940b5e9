import { Protocol, ToolKind } from '../../gen/tollgate/v1/content_pb.ts';
import {
  Delivery,
  Endpoint,
  type GenerateRequest,
  type OutputFormat,
  OutputFormatType,
  type ReasoningConfig,
  ReasoningEffort,
  type Sampling,
  ServiceTier,
  ThinkingMode,
  type Tool,
  type ToolChoice,
  ToolChoiceMode,
  type ToolName,
} from '../../gen/tollgate/v1/request_pb.ts';
import type { DecodedRequest, ReceivedRequest } from '../codec.ts';
import { requestOf, samplingOf } from '../content.ts';
import { invalidField, members, parseBody, UnknownMembers } from '../schema.ts';
import { cacheHintOf } from './cache-hint.ts';
import { decodeMessages } from './decode-messages.ts';
import { type ChatRequest, chatRequestSchema, type ChatTool, type ChatToolChoice } from './request-schema.ts';

/** Chat Completions requests to the model of a generation. Sources: decisions §4, wire.md C3. */

const known = new Set(Object.keys(chatRequestSchema.shape));
/** `modalities` says nothing where it asks for text alone. */
const knownOfTextOnly = new Set([...known, 'modalities']);
const knownOfTool = members('type', 'function', 'custom', 'cache_control', 'prompt_cache_breakpoint');
const knownOfFunction = members('name', 'description', 'parameters', 'strict');
const knownOfCustom = members('name', 'description', 'format');
const knownOfFormat = members('type', 'json_schema');
const knownOfJsonSchema = members('name', 'description', 'schema', 'strict');
/** `include_obfuscation` pads what OpenAI itself streams: nothing is lost where it is not done. */
const knownOfStreamOptions = members('include_usage', 'include_obfuscation');

const tiers: Readonly<Record<NonNullable<ChatRequest['service_tier']>, ServiceTier>> = {
  auto: ServiceTier.DEFAULT,
  default: ServiceTier.DEFAULT,
  flex: ServiceTier.FLEX,
  priority: ServiceTier.PRIORITY,
};

const efforts: Readonly<Record<NonNullable<ChatRequest['reasoning_effort']>, ReasoningEffort>> = {
  none: ReasoningEffort.NONE,
  minimal: ReasoningEffort.MINIMAL,
  low: ReasoningEffort.LOW,
  medium: ReasoningEffort.MEDIUM,
  high: ReasoningEffort.HIGH,
  xhigh: ReasoningEffort.XHIGH,
};

/** Throws `validation_error`. */
export function decodeRequest(received: ReceivedRequest): DecodedRequest {
  const body = parseBody(chatRequestSchema, received.body);
  checkTogether(body);
  const unknown = new UnknownMembers(Protocol.CHAT);
  unknown.note(body, isTextOnly(body['modalities']) ? knownOfTextOnly : known, '');
  if (body.stream_options != null) unknown.note(body.stream_options, knownOfStreamOptions, 'stream_options');
  const request = requestOf({
    model: body.model,
    endpoint: Endpoint.CHAT_COMPLETIONS,
    delivery: body.stream === true ? Delivery.STREAMED : Delivery.WHOLE,
    items: decodeMessages(body.messages, unknown),
    tools: toolsOf(body, unknown),
    stop: stopOf(body.stop),
    serviceTier: body.service_tier == null ? ServiceTier.UNSPECIFIED : tiers[body.service_tier],
    metadata: body.metadata ?? {},
  });
  addOptional(request, body, unknown);
  request.source = {
    $typeName: 'tollgate.v1.SourceRequest',
    protocol: Protocol.CHAT,
    body: received.raw,
    unknownFields: unknown.paths,
    headers: {},
  };
  const decoded = {
    request,
    stream: body.stream === true,
    includeUsage: body.stream_options?.include_usage === true,
  };
  return body.functions == null ? decoded : { ...decoded, legacyFunctions: true };
}

function isTextOnly(modalities: unknown): boolean {
  return Array.isArray(modalities) && modalities.every(modality => modality === 'text');
}

/** Rules that bind two fields. */
function checkTogether(body: ChatRequest): void {
  const { max_tokens: old, max_completion_tokens: limit, logprobs, top_logprobs: top } = body;
  if (old != null && limit != null && old !== limit) {
    throw invalidField('max_completion_tokens', 'differs from `max_tokens`: send only one of them');
  }
  if (top != null && logprobs !== true) throw invalidField('top_logprobs', 'needs `logprobs` to be true');
  if (body.tools != null && body.functions != null) {
    throw invalidField('functions', 'is the deprecated form of `tools`: send only one of them');
  }
}

const uint32Max = 2 ** 32 - 1;

function addOptional(request: GenerateRequest, body: ChatRequest, unknown: UnknownMembers): void {
  const limit = body.max_completion_tokens ?? body.max_tokens;
  // A limit above every model's means the model's own; the contract holds 32 bits.
  if (limit != null) request.maxOutputTokens = Math.min(limit, uint32Max);
  const choice = body.tool_choice == null ? legacyChoiceOf(body.function_call) : toolChoiceOf(body.tool_choice);
  if (choice !== undefined) request.toolChoice = choice;
  if (body.response_format != null) request.outputFormat = outputFormatOf(body.response_format, unknown);
  if (body.reasoning_effort != null) request.reasoning = reasoningOf(efforts[body.reasoning_effort]);
  const sampling = samplingFrom(body);
  if (sampling !== undefined) request.sampling = sampling;
  if (body.parallel_tool_calls != null) request.parallelToolCalls = body.parallel_tool_calls;
  if (body.verbosity != null) request.verbosity = body.verbosity;
  if (body.n != null) request.candidates = body.n;
  if (body.prompt_cache_key != null) request.promptCacheKey = body.prompt_cache_key;
  if (body.user != null) request.user = body.user;
  if (body.safety_identifier != null) request.safetyIdentifier = body.safety_identifier;
  if (body.store != null) request.store = body.store;
}

function reasoningOf(effort: ReasoningEffort): ReasoningConfig {
  return { $typeName: 'tollgate.v1.ReasoningConfig', effort, thinking: ThinkingMode.UNSPECIFIED };
}

function stopOf(stop: ChatRequest['stop']): string[] {
  if (stop == null) return [];
  return typeof stop === 'string' ? [stop] : stop;
}

const seedMax = 2n ** 63n - 1n;

function samplingFrom(body: ChatRequest): Sampling | undefined {
  const fields: Partial<Sampling> = {};
  if (body.temperature != null) fields.temperature = body.temperature;
  if (body.top_p != null) fields.topP = body.top_p;
  if (body.frequency_penalty != null) fields.frequencyPenalty = body.frequency_penalty;
  if (body.presence_penalty != null) fields.presencePenalty = body.presence_penalty;
  // The largest seed of an official client, 2^63 - 1, is 2^63 once JSON has rounded it.
  if (body.seed != null) fields.seed = body.seed >= 2 ** 63 ? seedMax : BigInt(body.seed);
  if (body.logit_bias != null) fields.logitBias = body.logit_bias;
  if (body.logprobs != null) fields.logprobs = body.logprobs;
  if (body.top_logprobs != null) fields.topLogprobs = body.top_logprobs;
  for (const _ in fields) return samplingOf(fields);
  return undefined;
}

function toolsOf(body: ChatRequest, unknown: UnknownMembers): Tool[] {
  if (body.functions != null) {
    return body.functions.map((each, index) => {
      unknown.note(each, knownOfFunction, `functions.${index}`);
      return functionTool({ type: 'function', function: { ...each, strict: undefined } });
    });
  }
  return (body.tools ?? []).map((tool, index) => toolOf(tool, unknown, `tools.${index}`));
}

function toolOf(tool: ChatTool, unknown: UnknownMembers, path: string): Tool {
  const extra = unknown.note(tool, knownOfTool, path);
  const result = tool.type === 'function' ? functionTool(tool) : customTool(tool);
  if (tool.type === 'function') unknown.note(tool.function, knownOfFunction, `${path}.function`);
  else unknown.note(tool.custom, knownOfCustom, `${path}.custom`);
  if (extra !== undefined) result.extra = extra;
  const cache = cacheHintOf(tool);
  if (cache !== undefined) result.cache = cache;
  return result;
}

function functionTool(tool: ChatTool & { type: 'function' }): Tool {
  const { name, description, parameters, strict } = tool.function;
  return {
    $typeName: 'tollgate.v1.Tool',
    tool: {
      case: 'function',
      value: {
        $typeName: 'tollgate.v1.FunctionTool',
        name,
        description: description ?? undefined,
        parametersJson: parameters == null ? '' : JSON.stringify(parameters),
        strict: strict ?? undefined,
      },
    },
  };
}

function customTool(tool: ChatTool & { type: 'custom' }): Tool {
  const { name, description, format } = tool.custom;
  return {
    $typeName: 'tollgate.v1.Tool',
    tool: {
      case: 'custom',
      value: {
        $typeName: 'tollgate.v1.CustomTool',
        name,
        description: description ?? undefined,
        formatJson: format == null ? '' : JSON.stringify(format),
      },
    },
  };
}

const modes: Readonly<Record<'none' | 'auto' | 'required', ToolChoiceMode>> = {
  none: ToolChoiceMode.NONE,
  auto: ToolChoiceMode.AUTO,
  required: ToolChoiceMode.REQUIRED,
};

function choice(mode: ToolChoiceMode, tools: ToolName[] = [], restricted = false): ToolChoice {
  return { $typeName: 'tollgate.v1.ToolChoice', mode, tools, restricted };
}

function toolName(name: string, kind: ToolKind): ToolName {
  return { $typeName: 'tollgate.v1.ToolName', name, kind };
}

function toolChoiceOf(value: ChatToolChoice): ToolChoice {
  if (typeof value === 'string') return choice(modes[value]);
  if (value.type !== 'allowed_tools') return choice(ToolChoiceMode.NAMED, [referenceOf(value)]);
  const { mode, tools } = value.allowed_tools;
  return choice(modes[mode], tools.map(referenceOf), true);
}

function referenceOf(reference: Exclude<ChatToolChoice, string | { type: 'allowed_tools' }>): ToolName {
  if (reference.type === 'function') return toolName(reference.function.name, ToolKind.FUNCTION);
  return toolName(reference.custom.name, ToolKind.CUSTOM);
}

function legacyChoiceOf(value: ChatRequest['function_call']): ToolChoice | undefined {
  if (value == null) return undefined;
  if (typeof value === 'string') return choice(modes[value]);
  return choice(ToolChoiceMode.NAMED, [toolName(value.name, ToolKind.FUNCTION)]);
}

function outputFormatOf(format: NonNullable<ChatRequest['response_format']>, unknown: UnknownMembers): OutputFormat {
  unknown.note(format, knownOfFormat, 'response_format');
  const base = { $typeName: 'tollgate.v1.OutputFormat', name: '', schemaJson: '' } as const;
  if (format.type === 'text') return { ...base, type: OutputFormatType.TEXT };
  if (format.type === 'json_object') return { ...base, type: OutputFormatType.JSON_OBJECT };
  const { name, description, schema, strict } = format.json_schema;
  unknown.note(format.json_schema, knownOfJsonSchema, 'response_format.json_schema');
  return {
    ...base,
    type: OutputFormatType.JSON_SCHEMA,
    name,
    description: description ?? undefined,
    schemaJson: schema == null ? '' : JSON.stringify(schema),
    strict: strict ?? undefined,
  };
}
