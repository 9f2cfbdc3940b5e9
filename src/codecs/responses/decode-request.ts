import { GatewayError } from '../../errors/gateway-error.ts';
import { Protocol, ToolKind } from '../../gen/tollgate/v1/content_pb.ts';
import {
  Endpoint,
  type OutputFormat,
  type ReasoningConfig,
  type Tool,
  type ToolChoice,
  type ToolName,
  Truncation,
} from '../../gen/tollgate/v1/request_pb.ts';
import type { DecodedRequest, ReceivedRequest } from '../codec.ts';
import { makeRequest } from '../content.ts';
import { defined } from '../json.ts';
import * as decode from '../request.ts';
import { invalidField, members, parseBody, UnknownMembers, UnknownValue } from '../schema.ts';
import { decodeServiceTier } from '../service-tier.ts';
import { decodeFormat } from './custom-format.ts';
import { decodeInput } from './decode-input.ts';
import { extras } from './extras.ts';
import {
  continuingRequestSchema,
  type ResponsesBody,
  type ResponsesCustomTool,
  type ResponsesFunctionTool,
  type ResponsesNamespace,
  responsesRequestSchema,
  type ResponsesTool,
  type ResponsesToolChoice,
  type ResponsesToolReference,
} from './request-schema.ts';

/** Decodes Responses requests to the contract's `GenerateRequest`. Sources: docs/interfaces/responses.md "Request", "Stream"; docs/interfaces/README.md "Translation". */

/** A decoded request, with the fields that the gateway handles itself. */
export interface ResponsesRequest extends DecodedRequest {
  /** The response that the request continues. */
  readonly previousResponseId: string | undefined;
  /** The conversation that the request belongs to. */
  readonly conversationId: string | undefined;
  /** True to store the response, so that it can be continued. */
  readonly store: boolean;
  /** True to answer at once and generate afterwards. */
  readonly background: boolean;
}

const known = new Set([...Object.keys(responsesRequestSchema.shape), 'prompt']);
const knownFunctionMembers = members('type', 'name', 'description', 'parameters', 'strict', 'defer_loading');
const knownCustomMembers = members('type', 'name', 'description', 'format', 'defer_loading');
const knownNamespaceMembers = members('type', 'name', 'description', 'tools');
const knownChoiceMembers = members('type', 'name', 'mode', 'tools');
const knownTextMembers = members('format', 'verbosity');
const knownFormatMembers = members('type', 'name', 'description', 'schema', 'strict');
const knownReasoningMembers = members('effort', 'summary');
/** `include_obfuscation` pads OpenAI's own streams: nothing is lost without it. */
const knownStreamOptionsMembers = members('include_obfuscation');

/** Decodes a request. Throws `validation_error`, and `unsupported_parameter` for `prompt`, which only OpenAI's own service supports. */
export function decodeRequest(received: ReceivedRequest): ResponsesRequest {
  return requestFrom(parseBody(responsesRequestSchema, received.body), received);
}

/**
 * Decodes a request whose input is to be counted or compacted: `input` may be absent if it continues a response or a conversation. Throws
 * as `decodeRequest`.
 */
export function decodeContinuingRequest(received: ReceivedRequest): ResponsesRequest {
  const body = parseBody(continuingRequestSchema, received.body);
  if (body.input == null && body.previous_response_id == null && body.conversation == null) {
    throw invalidField('input', 'is required unless `previous_response_id` or `conversation` is given', 'invalid_type');
  }
  return requestFrom(body, received);
}

function requestFrom(body: ResponsesBody, received: ReceivedRequest): ResponsesRequest {
  if (body['prompt'] != null) {
    throw new GatewayError('unsupported_parameter', '`prompt` is not offered here: send the input itself.', {
      param: 'prompt',
    });
  }
  const unknown = new UnknownMembers(Protocol.RESPONSES);
  unknown.collectFromBody(body, known);
  const items = body.input == null ? [] : decodeInput(body.input, unknown);
  const tools = (body.tools ?? []).flatMap((tool, index) => decodeTool(tool, unknown, `tools.${index}`));
  unknown.list(body.stream_options, knownStreamOptionsMembers, 'stream_options');
  const { text, reasoning } = body;
  const choice = unknown.knownOrRefuse(body.tool_choice, 'tool_choice');
  const include = (body.include ?? []).flatMap((each, index) => unknown.knownOrWarn(each, `include.${index}`) ?? []);
  const wantsLogprobs = include.includes('message.output_text.logprobs');
  const request = makeRequest({
    model: body.model,
    endpoint: Endpoint.RESPONSES,
    delivery: decode.delivery(body.stream),
    items,
    tools,
    ...decodeServiceTier(body.service_tier),
    metadata: body.metadata ?? {},
    include,
    truncation: decodeTruncation(unknown.knownOrWarn(body.truncation, 'truncation')),
    ...decode.sharedFields(body),
    ...decode.sampling({ ...samplingMembers(body), logprobs: wantsLogprobs ? true : undefined }),
    ...defined({
      instructions: body.instructions ?? undefined,
      maxOutputTokens: decode.clampToUint32(body.max_output_tokens),
      maxToolCalls: decode.clampToUint32(body.max_tool_calls),
      toolChoice: choice === undefined ? undefined : decodeToolChoice(choice, unknown),
      outputFormat: text == null ? undefined : decodeOutputFormat(text, unknown),
      verbosity: unknown.knownOrWarn(text?.verbosity, 'text.verbosity'),
      reasoning: reasoning == null ? undefined : decodeReasoning(reasoning, unknown),
    }),
  });
  request.source = decode.sourceRequest(Protocol.RESPONSES, { raw: received.raw, body, unknown });
  return {
    request,
    stream: body.stream === true,
    includeUsage: true,
    previousResponseId: body.previous_response_id ?? undefined,
    conversationId: readConversation(body.conversation),
    store: body.store !== false,
    background: body.background === true,
  };
}

function readConversation(conversation: ResponsesBody['conversation']): string | undefined {
  return typeof conversation === 'object' ? conversation?.id : conversation;
}

function decodeTruncation(truncation: 'auto' | 'disabled' | undefined): Truncation {
  if (truncation === undefined) return Truncation.UNSPECIFIED;
  return truncation === 'auto' ? Truncation.AUTO : Truncation.DISABLED;
}

/** Returns only the sampling fields that Responses has; others that Chat Completions has (`seed`, …) count as unknown members. */
function samplingMembers(body: ResponsesBody): Parameters<typeof decode.sampling>[0] {
  const { temperature, top_p, frequency_penalty, presence_penalty, top_logprobs } = body;
  return { temperature, top_p, frequency_penalty, presence_penalty, top_logprobs };
}

function decodeReasoning(reasoning: NonNullable<ResponsesBody['reasoning']>, unknown: UnknownMembers): ReasoningConfig {
  unknown.list(reasoning, knownReasoningMembers, 'reasoning');
  const effort = unknown.knownOrWarn(reasoning.effort, 'reasoning.effort');
  return {
    ...decode.reasoningConfig(effort),
    ...defined({ summary: unknown.knownOrWarn(reasoning.summary, 'reasoning.summary') }),
  };
}

function isFunction(tool: ResponsesTool): tool is ResponsesFunctionTool {
  return tool.type === 'function';
}

function isCustom(tool: ResponsesTool): tool is ResponsesCustomTool {
  return tool.type === 'custom';
}

function isNamespace(tool: ResponsesTool): tool is ResponsesNamespace {
  return tool.type === 'namespace';
}

function decodeTool(tool: ResponsesTool, unknown: UnknownMembers, path: string): Tool[] {
  if (isNamespace(tool)) return decodeNamespace(tool, unknown, path);
  return [isFunction(tool) || isCustom(tool) ? decodeClientTool(tool, unknown, path) : toHostedTool(tool)];
}

/** Returns the tools of a namespace, each with its namespace; a namespace without tools is passed on unchanged. */
function decodeNamespace(group: ResponsesNamespace, unknown: UnknownMembers, path: string): Tool[] {
  if (group.tools.length === 0) return [toHostedTool(group)];
  const { name } = group;
  const namespaceFields = defined({
    description: group.description ?? undefined,
    extra: unknown.collect(group, knownNamespaceMembers, path),
  });
  const namespace = { $typeName: 'tollgate.v1.ToolNamespace', name, ...namespaceFields } as const;
  return group.tools.map((tool, index) => {
    const decoded =
      tool instanceof UnknownValue ? toHostedTool(tool) : decodeClientTool(tool, unknown, `${path}.tools.${index}`);
    return { ...decoded, namespace };
  });
}

function toHostedTool(tool: ResponsesTool | UnknownValue): Tool {
  const json = tool instanceof UnknownValue ? (tool.value as ResponsesTool) : tool;
  return decode.makeTool(extras.hostedTool(json), {});
}

function decodeClientTool(
  tool: ResponsesFunctionTool | ResponsesCustomTool,
  unknown: UnknownMembers,
  path: string,
): Tool {
  const known = tool.type === 'function' ? knownFunctionMembers : knownCustomMembers;
  const hints = defined({ extra: unknown.collect(tool, known, path), deferred: tool.defer_loading ?? undefined });
  if (tool.type === 'function') return decode.makeTool(decode.functionTool(tool), hints);
  const formatJson = tool.format == null ? '' : decodeFormat(tool.format);
  return decode.makeTool(decode.customTool(tool, formatJson), hints);
}

type AllowedTools = Extract<ResponsesToolChoice, { tools: unknown }>;

function isAllowedTools(choice: ResponsesToolReference | AllowedTools): choice is AllowedTools {
  return choice.type === 'allowed_tools';
}

function decodeToolChoice(value: ResponsesToolChoice, unknown: UnknownMembers): ToolChoice {
  if (typeof value === 'string') return decode.toolChoice(value);
  unknown.list(value, knownChoiceMembers, 'tool_choice');
  if (isAllowedTools(value)) {
    const mode = unknown.knownOrRefuse(value.mode, 'tool_choice.mode') ?? 'auto';
    return decode.toolChoice(mode, value.tools.map(decodeToolName), true);
  }
  return decode.toolChoice('named', [decodeToolName(value)]);
}

const kinds: Readonly<Record<string, ToolKind>> = { function: ToolKind.FUNCTION, custom: ToolKind.CUSTOM };

/** Returns a tool's name; for a tool that the upstream runs, its type. */
function decodeToolName(reference: ResponsesToolReference): ToolName {
  const { type, name } = reference as { type: string; name?: unknown };
  const kind = kinds[type] ?? ToolKind.UNSPECIFIED;
  return decode.toolName(kind !== ToolKind.UNSPECIFIED && typeof name === 'string' ? name : type, kind);
}

function decodeOutputFormat(
  text: NonNullable<ResponsesBody['text']>,
  unknown: UnknownMembers,
): OutputFormat | undefined {
  unknown.list(text, knownTextMembers, 'text');
  const format = unknown.knownOrRefuse(text.format, 'text.format');
  unknown.list(format, knownFormatMembers, 'text.format');
  if (format === undefined) return undefined;
  return format.type === 'json_schema' ? decode.schemaFormat(format) : decode.plainFormat(format.type);
}
