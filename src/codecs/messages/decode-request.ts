import { GatewayError } from '../../errors/gateway-error.ts';
import { Protocol, ToolKind } from '../../gen/tollgate/v1/content_pb.ts';
import {
  Delivery,
  Endpoint,
  type GenerateRequest,
  OutputFormatType,
  type ReasoningConfig,
  ReasoningEffort,
  type Sampling,
  ServiceTier,
  ThinkingMode,
  type Tool,
  type ToolChoice,
  ToolChoiceMode,
} from '../../gen/tollgate/v1/request_pb.ts';
import type { DecodedRequest, ReceivedRequest } from '../codec.ts';
import { requestOf, samplingOf } from '../content.ts';
import { members, parseBody, UnknownMembers } from '../schema.ts';
import { decodeMessages } from './decode-messages.ts';
import { cacheHintOf } from './extra.ts';
import {
  countRequestSchema,
  type MessagesRequest,
  messagesRequestSchema,
  type MessagesTool,
  type MessagesToolChoice,
  type OwnTool,
} from './request-schema.ts';

/** Messages requests to the model of a generation. Sources: decisions §4, wire.md B3, C3. */

const known = new Set(Object.keys(messagesRequestSchema.shape));
const knownOfTool = members('type', 'name', 'description', 'input_schema', 'strict', 'cache_control');
const knownOfChoice = members('type', 'name', 'disable_parallel_tool_use');
const knownOfThinking = members('type', 'budget_tokens', 'display');
const knownOfOutputConfig = members('effort', 'format');
const knownOfFormat = members('type', 'schema');
const knownOfMetadata = members('user_id');

const tiers: Readonly<Record<NonNullable<MessagesRequest['service_tier']>, ServiceTier>> = {
  auto: ServiceTier.DEFAULT,
  standard_only: ServiceTier.DEFAULT,
  standard: ServiceTier.DEFAULT,
  default: ServiceTier.DEFAULT,
  flex: ServiceTier.FLEX,
  priority: ServiceTier.PRIORITY,
};

/** Throws `validation_error`. */
export function decodeRequest(received: ReceivedRequest): DecodedRequest {
  const body = parseBody(messagesRequestSchema, received.body);
  return { request: requestFrom(body, received), stream: body.stream === true, includeUsage: true };
}

/** A request whose input is to be counted: `max_tokens` may be missing. Throws `validation_error`. */
export function decodeCountRequest(received: ReceivedRequest): GenerateRequest {
  return requestFrom(parseBody(countRequestSchema, received.body), received);
}

function requestFrom(body: MessagesRequest, received: ReceivedRequest): GenerateRequest {
  if (body['thread'] != null) {
    // The official client's tool runner asks for one, and goes on without it when it is told so.
    const message = 'Conversations that the server holds between turns are not offered: send the whole history.';
    throw new GatewayError('unsupported_parameter', message, { param: 'thread' });
  }
  const unknown = new UnknownMembers(Protocol.MESSAGES);
  unknown.note(body, known, '');
  const request = requestOf({
    model: body.model,
    endpoint: Endpoint.MESSAGES,
    delivery: body.stream === true ? Delivery.STREAMED : Delivery.WHOLE,
    items: decodeMessages(body.system ?? undefined, body.messages, unknown),
    tools: (body.tools ?? []).map((tool, index) => toolOf(tool, unknown, `tools.${index}`)),
    stop: body.stop_sequences ?? [],
    serviceTier: body.service_tier == null ? ServiceTier.UNSPECIFIED : tiers[body.service_tier],
  });
  addOptional(request, body, unknown);
  request.source = {
    $typeName: 'tollgate.v1.SourceRequest',
    protocol: Protocol.MESSAGES,
    body: received.raw,
    unknownFields: unknown.paths,
    headers: protocolHeaders(received.headers),
  };
  return request;
}

/** The headers that an upstream of the protocol gets as the client sent them. */
function protocolHeaders(headers: ReceivedRequest['headers']): Record<string, string> {
  const own: Record<string, string> = {};
  for (const name of ['anthropic-version', 'anthropic-beta']) {
    const value = headers[name];
    if (value !== undefined) own[name] = typeof value === 'string' ? value : value.join(',');
  }
  return own;
}

const uint32Max = 2 ** 32 - 1;

function addOptional(request: GenerateRequest, body: MessagesRequest, unknown: UnknownMembers): void {
  // A limit above every model's means the model's own; the contract holds 32 bits.
  if (body.max_tokens != null) request.maxOutputTokens = Math.min(body.max_tokens, uint32Max);
  if (body.tool_choice != null) {
    unknown.note(body.tool_choice, knownOfChoice, 'tool_choice');
    request.toolChoice = toolChoiceOf(body.tool_choice);
    const disabled = body.tool_choice.type === 'none' ? undefined : body.tool_choice.disable_parallel_tool_use;
    if (disabled != null) request.parallelToolCalls = !disabled;
  }
  const reasoning = reasoningOf(body, unknown);
  if (reasoning !== undefined) request.reasoning = reasoning;
  if (body.output_config?.format != null) {
    const { schema } = body.output_config.format;
    unknown.note(body.output_config.format, knownOfFormat, 'output_config.format');
    // Other protocols want a name for a schema.
    const name = 'response';
    request.outputFormat = {
      $typeName: 'tollgate.v1.OutputFormat',
      type: OutputFormatType.JSON_SCHEMA,
      name,
      schemaJson: JSON.stringify(schema),
    };
  }
  const sampling = samplingFrom(body);
  if (sampling !== undefined) request.sampling = sampling;
  const cache = cacheHintOf(body.cache_control);
  if (cache !== undefined) request.cache = cache;
  if (body.metadata != null) {
    unknown.note(body.metadata, knownOfMetadata, 'metadata');
    if (body.metadata.user_id != null) request.user = body.metadata.user_id;
  }
}

const thinkingModes = {
  enabled: ThinkingMode.ENABLED,
  disabled: ThinkingMode.DISABLED,
  adaptive: ThinkingMode.ADAPTIVE,
  between_tools: ThinkingMode.BETWEEN_TOOLS,
} as const;

const efforts = {
  low: ReasoningEffort.LOW,
  medium: ReasoningEffort.MEDIUM,
  high: ReasoningEffort.HIGH,
  xhigh: ReasoningEffort.XHIGH,
  max: ReasoningEffort.MAX,
} as const;

function reasoningOf(body: MessagesRequest, unknown: UnknownMembers): ReasoningConfig | undefined {
  const { thinking, output_config: output } = body;
  if (output != null) unknown.note(output, knownOfOutputConfig, 'output_config');
  if (thinking != null) unknown.note(thinking, knownOfThinking, 'thinking');
  if (thinking == null && output?.effort == null) return undefined;
  const config: ReasoningConfig = {
    $typeName: 'tollgate.v1.ReasoningConfig',
    effort: output?.effort == null ? ReasoningEffort.UNSPECIFIED : efforts[output.effort],
    thinking: thinking == null ? ThinkingMode.UNSPECIFIED : thinkingModes[thinking.type],
  };
  if (thinking == null || thinking.type === 'disabled') return config;
  if (thinking.type === 'enabled') config.budgetTokens = Math.min(thinking.budget_tokens, uint32Max);
  if (thinking.display != null) config.display = thinking.display;
  return config;
}

function samplingFrom(body: MessagesRequest): Sampling | undefined {
  const { temperature, top_p: topP, top_k: topK } = body;
  if (temperature == null && topP == null && topK == null) return undefined;
  return samplingOf({
    ...(temperature == null ? {} : { temperature }),
    ...(topP == null ? {} : { topP }),
    ...(topK == null ? {} : { topK: Math.min(topK, uint32Max) }),
  });
}

function isOwn(tool: MessagesTool): tool is OwnTool {
  return tool.type == null || tool.type === 'custom';
}

function toolOf(tool: MessagesTool, unknown: UnknownMembers, path: string): Tool {
  const cache = cacheHintOf(tool.cache_control);
  const hint = cache === undefined ? {} : { cache };
  if (!isOwn(tool)) {
    const value = {
      $typeName: 'tollgate.v1.HostedTool',
      protocol: Protocol.MESSAGES,
      type: tool.type,
      json: JSON.stringify(tool),
    } as const;
    return { $typeName: 'tollgate.v1.Tool', tool: { case: 'hosted', value }, ...hint };
  }
  const { name, description, input_schema: schema, strict } = tool;
  const extra = unknown.note(tool, knownOfTool, path);
  return {
    $typeName: 'tollgate.v1.Tool',
    tool: {
      case: 'function',
      value: {
        $typeName: 'tollgate.v1.FunctionTool',
        name,
        description: description ?? undefined,
        parametersJson: JSON.stringify(schema),
        strict: strict ?? undefined,
      },
    },
    ...hint,
    ...(extra === undefined ? {} : { extra }),
  };
}

const modes = {
  auto: ToolChoiceMode.AUTO,
  any: ToolChoiceMode.REQUIRED,
  tool: ToolChoiceMode.NAMED,
  none: ToolChoiceMode.NONE,
} as const;

function toolChoiceOf(choice: MessagesToolChoice): ToolChoice {
  const tools =
    choice.type === 'tool'
      ? [{ $typeName: 'tollgate.v1.ToolName' as const, name: choice.name, kind: ToolKind.FUNCTION }]
      : [];
  return { $typeName: 'tollgate.v1.ToolChoice', mode: modes[choice.type], tools, restricted: false };
}
