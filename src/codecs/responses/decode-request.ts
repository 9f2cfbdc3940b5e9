import { GatewayError } from '../../errors/gateway-error.ts';
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
  Truncation,
} from '../../gen/tollgate/v1/request_pb.ts';
import type { DecodedRequest, ReceivedRequest } from '../codec.ts';
import { requestOf, samplingOf } from '../content.ts';
import { invalidField, members, parseBody, UnknownMembers } from '../schema.ts';
import { decodeFormat } from './custom-format.ts';
import { decodeInput } from './decode-input.ts';
import {
  continuingRequestSchema,
  type ResponsesBody,
  type ResponsesCustomTool,
  type ResponsesFormat,
  type ResponsesFunctionTool,
  responsesRequestSchema,
  type ResponsesTool,
  type ResponsesToolChoice,
  type ResponsesToolReference,
} from './request-schema.ts';

/** Responses requests to the model of a generation. Sources: decisions §4, wire.md B2, C3. */

/** A decoded request and what the interface asks of the gateway itself. */
export interface ResponsesRequest extends DecodedRequest {
  /** The response that it goes on from. */
  readonly previousResponseId: string | undefined;
  /** Keep the response, so that it can be gone on from. */
  readonly store: boolean;
  /** Answer at once, generate on. */
  readonly background: boolean;
}

const known = new Set([...Object.keys(responsesRequestSchema.shape), 'conversation', 'prompt']);
const knownOfFunction = members('type', 'name', 'description', 'parameters', 'strict');
const knownOfCustom = members('type', 'name', 'description', 'format');
const knownOfChoice = members('type', 'name', 'mode', 'tools');
const knownOfText = members('format', 'verbosity');
const knownOfFormat = members('type', 'name', 'description', 'schema', 'strict');
const knownOfReasoning = members('effort', 'summary');
/** Padding of what OpenAI itself streams: nothing is lost where it is not done. */
const knownOfStreamOptions = members('include_obfuscation');

const tiers: Readonly<Record<NonNullable<ResponsesBody['service_tier']>, ServiceTier>> = {
  auto: ServiceTier.DEFAULT,
  default: ServiceTier.DEFAULT,
  flex: ServiceTier.FLEX,
  priority: ServiceTier.PRIORITY,
};

const efforts = {
  none: ReasoningEffort.NONE,
  minimal: ReasoningEffort.MINIMAL,
  low: ReasoningEffort.LOW,
  medium: ReasoningEffort.MEDIUM,
  high: ReasoningEffort.HIGH,
  xhigh: ReasoningEffort.XHIGH,
  max: ReasoningEffort.MAX,
} as const;

/** Throws `validation_error`, and `unsupported_parameter` for what only the provider's own service has. */
export function decodeRequest(received: ReceivedRequest): ResponsesRequest {
  return requestFrom(parseBody(responsesRequestSchema, received.body), received);
}

/** A request whose input is to be counted or compacted: it may lie in the response that is continued alone. Throws as `decodeRequest`. */
export function decodeContinuingRequest(received: ReceivedRequest): ResponsesRequest {
  const body = parseBody(continuingRequestSchema, received.body);
  if (body.input == null && body.previous_response_id == null) {
    throw invalidField('input', 'is required unless `previous_response_id` is given', 'invalid_type');
  }
  return requestFrom(body, received);
}

function requestFrom(body: ResponsesBody, received: ReceivedRequest): ResponsesRequest {
  for (const param of ['conversation', 'prompt']) {
    if (body[param] == null) continue;
    throw new GatewayError('unsupported_parameter', `\`${param}\` is not offered here: send the input itself.`, {
      param,
    });
  }
  const unknown = new UnknownMembers(Protocol.RESPONSES);
  unknown.note(body, known, '');
  const store = body.store !== false;
  const request = requestOf({
    model: body.model,
    endpoint: Endpoint.RESPONSES,
    delivery: body.stream === true ? Delivery.STREAMED : Delivery.WHOLE,
    items: body.input == null ? [] : decodeInput(body.input, unknown),
    tools: (body.tools ?? []).map((tool, index) => toolOf(tool, unknown, `tools.${index}`)),
    serviceTier: body.service_tier == null ? ServiceTier.UNSPECIFIED : tiers[body.service_tier],
    metadata: body.metadata ?? {},
    include: body.include ?? [],
    truncation: truncationOf(body.truncation),
  });
  addOptional(request, body, unknown);
  request.source = {
    $typeName: 'tollgate.v1.SourceRequest',
    protocol: Protocol.RESPONSES,
    body: received.raw,
    unknownFields: unknown.paths,
    headers: {},
  };
  return {
    request,
    stream: body.stream === true,
    includeUsage: true,
    previousResponseId: body.previous_response_id ?? undefined,
    store,
    background: body.background === true,
  };
}

function truncationOf(truncation: ResponsesBody['truncation']): Truncation {
  if (truncation == null) return Truncation.UNSPECIFIED;
  return truncation === 'auto' ? Truncation.AUTO : Truncation.DISABLED;
}

const uint32Max = 2 ** 32 - 1;

function addOptional(request: GenerateRequest, body: ResponsesBody, unknown: UnknownMembers): void {
  if (body.stream_options != null) unknown.note(body.stream_options, knownOfStreamOptions, 'stream_options');
  if (body.instructions != null) request.instructions = body.instructions;
  // A limit above every model's means the model's own; the contract holds 32 bits.
  if (body.max_output_tokens != null) request.maxOutputTokens = Math.min(body.max_output_tokens, uint32Max);
  if (body.max_tool_calls != null) request.maxToolCalls = Math.min(body.max_tool_calls, uint32Max);
  if (body.tool_choice != null) request.toolChoice = toolChoiceOf(body.tool_choice, unknown);
  if (body.parallel_tool_calls != null) request.parallelToolCalls = body.parallel_tool_calls;
  if (body.text != null) {
    unknown.note(body.text, knownOfText, 'text');
    if (body.text.format != null) request.outputFormat = outputFormatOf(body.text.format, unknown);
    if (body.text.verbosity != null) request.verbosity = body.text.verbosity;
  }
  const reasoning = reasoningOf(body.reasoning, unknown);
  if (reasoning !== undefined) request.reasoning = reasoning;
  const sampling = samplingFrom(body);
  if (sampling !== undefined) request.sampling = sampling;
  if (body.prompt_cache_key != null) request.promptCacheKey = body.prompt_cache_key;
  if (body.safety_identifier != null) request.safetyIdentifier = body.safety_identifier;
  if (body.user != null) request.user = body.user;
  if (body.store != null) request.store = body.store;
}

function reasoningOf(reasoning: ResponsesBody['reasoning'], unknown: UnknownMembers): ReasoningConfig | undefined {
  if (reasoning == null) return undefined;
  unknown.note(reasoning, knownOfReasoning, 'reasoning');
  const { effort, summary } = reasoning;
  return {
    $typeName: 'tollgate.v1.ReasoningConfig',
    effort: effort == null ? ReasoningEffort.UNSPECIFIED : efforts[effort],
    thinking: ThinkingMode.UNSPECIFIED,
    ...(summary == null ? {} : { summary }),
  };
}

function samplingFrom(body: ResponsesBody): Sampling | undefined {
  const fields: Partial<Sampling> = {};
  if (body.temperature != null) fields.temperature = body.temperature;
  if (body.top_p != null) fields.topP = body.top_p;
  if (body.frequency_penalty != null) fields.frequencyPenalty = body.frequency_penalty;
  if (body.presence_penalty != null) fields.presencePenalty = body.presence_penalty;
  if (body.include?.includes('message.output_text.logprobs') === true) fields.logprobs = true;
  if (body.top_logprobs != null) fields.topLogprobs = body.top_logprobs;
  for (const _ in fields) return samplingOf(fields);
  return undefined;
}

function isFunction(tool: ResponsesTool): tool is ResponsesFunctionTool {
  return tool.type === 'function';
}

function isCustom(tool: ResponsesTool): tool is ResponsesCustomTool {
  return tool.type === 'custom';
}

function toolOf(tool: ResponsesTool, unknown: UnknownMembers, path: string): Tool {
  if (isFunction(tool)) {
    const extra = unknown.note(tool, knownOfFunction, path);
    const { name, description, parameters, strict } = tool;
    const value = {
      $typeName: 'tollgate.v1.FunctionTool' as const,
      name,
      description: description ?? undefined,
      parametersJson: parameters == null ? '' : JSON.stringify(parameters),
      strict: strict ?? undefined,
    };
    return toolWith({ case: 'function', value }, extra);
  }
  if (isCustom(tool)) {
    const extra = unknown.note(tool, knownOfCustom, path);
    const { name, description, format } = tool;
    const value = {
      $typeName: 'tollgate.v1.CustomTool' as const,
      name,
      description: description ?? undefined,
      formatJson: format == null ? '' : decodeFormat(format),
    };
    return toolWith({ case: 'custom', value }, extra);
  }
  const json = JSON.stringify(tool);
  const value = { $typeName: 'tollgate.v1.HostedTool' as const, protocol: Protocol.RESPONSES, type: tool.type, json };
  return toolWith({ case: 'hosted', value }, undefined);
}

function toolWith(tool: Tool['tool'], extra: Tool['extra']): Tool {
  return { $typeName: 'tollgate.v1.Tool', tool, ...(extra === undefined ? {} : { extra }) };
}

const modes = {
  none: ToolChoiceMode.NONE,
  auto: ToolChoiceMode.AUTO,
  required: ToolChoiceMode.REQUIRED,
} as const;

type AllowedTools = Extract<ResponsesToolChoice, { tools: unknown }>;

function isAllowedTools(choice: ResponsesToolReference | AllowedTools): choice is AllowedTools {
  return choice.type === 'allowed_tools';
}

function toolChoiceOf(value: ResponsesToolChoice, unknown: UnknownMembers): ToolChoice {
  if (typeof value === 'string') return choiceOf(modes[value]);
  unknown.note(value, knownOfChoice, 'tool_choice');
  if (isAllowedTools(value)) return choiceOf(modes[value.mode ?? 'auto'], value.tools.map(toolNameOf), true);
  return choiceOf(ToolChoiceMode.NAMED, [toolNameOf(value)]);
}

function choiceOf(mode: ToolChoiceMode, tools: ToolName[] = [], restricted = false): ToolChoice {
  return { $typeName: 'tollgate.v1.ToolChoice', mode, tools, restricted };
}

/** A tool that the upstream runs has no name but its type. */
function toolNameOf(reference: ResponsesToolReference): ToolName {
  const { type, name } = reference as { type: string; name?: unknown };
  const kinds: Readonly<Record<string, ToolKind>> = { function: ToolKind.FUNCTION, custom: ToolKind.CUSTOM };
  const kind = kinds[type] ?? ToolKind.UNSPECIFIED;
  const isOwn = kind !== ToolKind.UNSPECIFIED && typeof name === 'string';
  return { $typeName: 'tollgate.v1.ToolName', name: isOwn ? name : type, kind };
}

function outputFormatOf(format: ResponsesFormat, unknown: UnknownMembers): OutputFormat {
  unknown.note(format, knownOfFormat, 'text.format');
  const base = { $typeName: 'tollgate.v1.OutputFormat', name: '', schemaJson: '' } as const;
  if (format.type === 'text') return { ...base, type: OutputFormatType.TEXT };
  if (format.type === 'json_object') return { ...base, type: OutputFormatType.JSON_OBJECT };
  const { name, description, schema, strict } = format;
  return {
    ...base,
    type: OutputFormatType.JSON_SCHEMA,
    name,
    description: description ?? undefined,
    schemaJson: JSON.stringify(schema),
    strict: strict ?? undefined,
  };
}
