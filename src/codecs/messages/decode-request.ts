import { GatewayError } from '../../errors/gateway-error.ts';
import { Protocol } from '../../gen/tollgate/v1/content_pb.ts';
import {
  Endpoint,
  type GenerateRequest,
  type OutputFormat,
  type ReasoningConfig,
  ThinkingMode,
  type Tool,
  type ToolChoice,
} from '../../gen/tollgate/v1/request_pb.ts';
import { decodeCache } from '../cache-hint.ts';
import type { DecodedRequest, ReceivedRequest } from '../codec.ts';
import { makeRequest } from '../content.ts';
import { defined } from '../json.ts';
import * as decode from '../request.ts';
import { members, parseBody, UnknownMembers } from '../schema.ts';
import { SentTexts } from '../sent-body.ts';
import { decodeServiceTier } from '../service-tier.ts';
import { decodeMessages } from './decode-messages.ts';
import { extras } from './extras.ts';
import {
  countRequestSchema,
  type MessagesRequest,
  messagesRequestSchema,
  type MessagesTool,
  type MessagesToolChoice,
  type ClientTool,
} from './request-schema.ts';

/** Decodes Messages requests to the contract's `GenerateRequest`. Sources: docs/interfaces/messages.md "Request", "Stream"; docs/interfaces/README.md "Translation". */

const known = new Set(Object.keys(messagesRequestSchema.shape));
const knownToolMembers = members(
  'type',
  'name',
  'description',
  'input_schema',
  'strict',
  'defer_loading',
  'cache_control',
);
const knownChoiceMembers = members('type', 'name', 'disable_parallel_tool_use');
const knownThinkingMembers = members('type', 'budget_tokens', 'display');
const knownOutputConfigMembers = members('effort', 'format');
const knownFormatMembers = members('type', 'schema');
const knownMetadataMembers = members('user_id');

/** Decodes a request. `ownStopReasons` is set if it has the header `anthropic-version`, which Anthropic's clients send. Throws `validation_error` and `unsupported_parameter`. */
export function decodeRequest(received: ReceivedRequest): DecodedRequest {
  const body = parseBody(messagesRequestSchema, received.body);
  const decoded = { request: requestFrom(body, received), stream: body.stream === true, includeUsage: true };
  return received.headers['anthropic-version'] === undefined ? decoded : { ...decoded, ownStopReasons: true };
}

/** Decodes a request whose input is to be counted: `max_tokens` may be missing. Throws `validation_error` and `unsupported_parameter`. */
export function decodeCountRequest(received: ReceivedRequest): GenerateRequest {
  return requestFrom(parseBody(countRequestSchema, received.body), received);
}

function requestFrom(body: MessagesRequest, received: ReceivedRequest): GenerateRequest {
  if (body['thread'] != null) {
    // The official client's tool runner requests one, and continues without it if it is refused.
    const message = 'Conversations that the server stores between turns are not supported: send the whole history.';
    throw new GatewayError('unsupported_parameter', message, { param: 'thread' });
  }
  const unknownMembers = new UnknownMembers(Protocol.MESSAGES);
  unknownMembers.collectFromBody(body, known);
  const { metadata } = body;
  const choice = unknownMembers.knownOrRefuse(body.tool_choice, 'tool_choice');
  const items = decodeMessages(body.system ?? undefined, body.messages, unknownMembers, new SentTexts(received));
  const tools = (body.tools ?? []).map((tool, index) => decodeTool(tool, unknownMembers, `tools.${index}`));
  unknownMembers.list(choice, knownChoiceMembers, 'tool_choice');
  const request = makeRequest({
    model: body.model,
    endpoint: Endpoint.MESSAGES,
    delivery: decode.delivery(body.stream),
    items,
    tools,
    stop: body.stop_sequences ?? [],
    ...decodeServiceTier(body.service_tier),
    ...decode.sampling({ temperature: body.temperature, top_p: body.top_p, top_k: body.top_k }),
    ...decodeCache(body.cache_control, 'cache_control', unknownMembers),
    ...(choice === undefined ? {} : decodeToolChoice(choice)),
    ...defined({
      maxOutputTokens: decode.clampToUint32(body.max_tokens),
      reasoning: decodeReasoning(body, unknownMembers),
      user: metadata?.user_id ?? undefined,
    }),
  });
  const format = decodeFormat(body, unknownMembers);
  if (format !== undefined) request.outputFormat = format;
  unknownMembers.list(metadata, knownMetadataMembers, 'metadata');
  const headers = protocolHeaders(received.headers);
  request.source = decode.sourceRequest(
    Protocol.MESSAGES,
    { raw: received.raw, body, unknown: unknownMembers },
    headers,
  );
  return request;
}

function decodeFormat(body: MessagesRequest, unknownMembers: UnknownMembers): OutputFormat | undefined {
  const isOlder = body.output_config?.format == null;
  const path = isOlder ? 'output_format' : 'output_config.format';
  const format = unknownMembers.knownOrRefuse(isOlder ? body.output_format : body.output_config?.format, path);
  if (format === undefined) return undefined;
  unknownMembers.list(format, knownFormatMembers, path);
  // Other protocols require a name for a schema.
  return decode.schemaFormat({ name: 'response', schema: format.schema });
}

/** Returns the headers that an upstream of the same protocol gets unchanged. */
function protocolHeaders(headers: ReceivedRequest['headers']): Record<string, string> {
  const own: Record<string, string> = {};
  for (const name of ['anthropic-version', 'anthropic-beta']) {
    const value = headers[name];
    if (value !== undefined) own[name] = typeof value === 'string' ? value : value.join(',');
  }
  return own;
}

const thinkingModes = {
  enabled: ThinkingMode.ENABLED,
  disabled: ThinkingMode.DISABLED,
  adaptive: ThinkingMode.ADAPTIVE,
  between_tools: ThinkingMode.BETWEEN_TOOLS,
} as const;

function decodeReasoning(body: MessagesRequest, unknownMembers: UnknownMembers): ReasoningConfig | undefined {
  const { output_config: output } = body;
  unknownMembers.list(output, knownOutputConfigMembers, 'output_config');
  const effort = unknownMembers.knownOrWarn(output?.effort, 'output_config.effort');
  const thinking = unknownMembers.knownOrWarn(body.thinking, 'thinking');
  unknownMembers.list(thinking, knownThinkingMembers, 'thinking');
  if (thinking === undefined) return effort === undefined ? undefined : decode.reasoningConfig(effort);
  const config = decode.reasoningConfig(effort, thinkingModes[thinking.type]);
  if (thinking.type === 'disabled') return config;
  const budgetTokens = thinking.type === 'enabled' ? decode.clampToUint32(thinking.budget_tokens) : undefined;
  return {
    ...config,
    ...defined({ budgetTokens, display: unknownMembers.knownOrWarn(thinking.display, 'thinking.display') }),
  };
}

function isClientTool(tool: MessagesTool): tool is ClientTool {
  return tool.type == null || tool.type === 'custom';
}

function decodeTool(tool: MessagesTool, unknownMembers: UnknownMembers, path: string): Tool {
  const hint = decodeCache(tool.cache_control, `${path}.cache_control`, unknownMembers);
  if (!isClientTool(tool)) return decode.makeTool(extras.hostedTool(tool), hint);
  const extra = unknownMembers.collect(tool, knownToolMembers, path);
  return decode.makeTool(decode.functionTool({ ...tool, parameters: tool.input_schema }), {
    ...hint,
    ...defined({ extra, deferred: tool.defer_loading ?? undefined }),
  });
}

const modes = { auto: 'auto', any: 'required', tool: 'named', none: 'none' } as const;

function decodeToolChoice(choice: MessagesToolChoice): { toolChoice: ToolChoice; parallelToolCalls?: boolean } {
  const tools = choice.type === 'tool' ? [decode.toolName(choice.name)] : [];
  const rule = { toolChoice: decode.toolChoice(modes[choice.type], tools) };
  const disabled = choice.type === 'none' ? undefined : choice.disable_parallel_tool_use;
  return disabled == null ? rule : { ...rule, parallelToolCalls: !disabled };
}
