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
import { requestOf } from '../content.ts';
import { defined } from '../json.ts';
import * as decode from '../request.ts';
import { invalidField, members, parseBody, UnknownMembers } from '../schema.ts';
import { decodeServiceTier } from '../service-tier.ts';
import { decodeFormat } from './custom-format.ts';
import { decodeInput } from './decode-input.ts';
import { extras } from './extras.ts';
import {
  continuingRequestSchema,
  type ResponsesBody,
  type ResponsesCustomTool,
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
  const items = body.input == null ? [] : decodeInput(body.input, unknown);
  const tools = (body.tools ?? []).map((tool, index) => decodeTool(tool, unknown, `tools.${index}`));
  unknown.note(body.stream_options, knownOfStreamOptions, 'stream_options');
  const { tool_choice: choice, text, reasoning } = body;
  const wantsLogprobs = body.include?.includes('message.output_text.logprobs') === true;
  const request = requestOf({
    model: body.model,
    endpoint: Endpoint.RESPONSES,
    delivery: decode.delivery(body.stream),
    items,
    tools,
    serviceTier: decodeServiceTier(body.service_tier),
    metadata: body.metadata ?? {},
    include: body.include ?? [],
    truncation: decodeTruncation(body.truncation),
    ...decode.sharedFields(body),
    ...decode.sampling({ ...samplingMembers(body), logprobs: wantsLogprobs ? true : undefined }),
    ...defined({
      instructions: body.instructions ?? undefined,
      maxOutputTokens: decode.limit32(body.max_output_tokens),
      maxToolCalls: decode.limit32(body.max_tool_calls),
      toolChoice: choice == null ? undefined : decodeToolChoice(choice, unknown),
      outputFormat: text == null ? undefined : decodeOutputFormat(text, unknown),
      verbosity: text?.verbosity ?? undefined,
      reasoning: reasoning == null ? undefined : decodeReasoning(reasoning, unknown),
    }),
  });
  request.source = decode.sourceRequest(Protocol.RESPONSES, { body: received.raw, paths: unknown.paths });
  return {
    request,
    stream: body.stream === true,
    includeUsage: true,
    previousResponseId: body.previous_response_id ?? undefined,
    store: body.store !== false,
    background: body.background === true,
  };
}

function decodeTruncation(truncation: ResponsesBody['truncation']): Truncation {
  if (truncation == null) return Truncation.UNSPECIFIED;
  return truncation === 'auto' ? Truncation.AUTO : Truncation.DISABLED;
}

/** The members about sampling that the interface has: others that look so are unknown here. */
function samplingMembers(body: ResponsesBody): Parameters<typeof decode.sampling>[0] {
  const { temperature, top_p, frequency_penalty, presence_penalty, top_logprobs } = body;
  return { temperature, top_p, frequency_penalty, presence_penalty, top_logprobs };
}

function decodeReasoning(reasoning: NonNullable<ResponsesBody['reasoning']>, unknown: UnknownMembers): ReasoningConfig {
  unknown.note(reasoning, knownOfReasoning, 'reasoning');
  return { ...decode.reasoningConfig(reasoning.effort), ...defined({ summary: reasoning.summary ?? undefined }) };
}

function isFunction(tool: ResponsesTool): tool is ResponsesFunctionTool {
  return tool.type === 'function';
}

function isCustom(tool: ResponsesTool): tool is ResponsesCustomTool {
  return tool.type === 'custom';
}

function decodeTool(tool: ResponsesTool, unknown: UnknownMembers, path: string): Tool {
  if (isFunction(tool))
    return decode.toolWith(decode.functionTool(tool), defined({ extra: unknown.note(tool, knownOfFunction, path) }));
  if (!isCustom(tool)) return decode.toolWith(extras.hostedTool(tool), {});
  const formatJson = tool.format == null ? '' : decodeFormat(tool.format);
  return decode.toolWith(
    decode.customTool(tool, formatJson),
    defined({ extra: unknown.note(tool, knownOfCustom, path) }),
  );
}

type AllowedTools = Extract<ResponsesToolChoice, { tools: unknown }>;

function isAllowedTools(choice: ResponsesToolReference | AllowedTools): choice is AllowedTools {
  return choice.type === 'allowed_tools';
}

function decodeToolChoice(value: ResponsesToolChoice, unknown: UnknownMembers): ToolChoice {
  if (typeof value === 'string') return decode.toolChoice(value);
  unknown.note(value, knownOfChoice, 'tool_choice');
  if (isAllowedTools(value)) return decode.toolChoice(value.mode ?? 'auto', value.tools.map(decodeToolName), true);
  return decode.toolChoice('named', [decodeToolName(value)]);
}

const kinds: Readonly<Record<string, ToolKind>> = { function: ToolKind.FUNCTION, custom: ToolKind.CUSTOM };

/** A tool that the upstream runs has no name but its type. */
function decodeToolName(reference: ResponsesToolReference): ToolName {
  const { type, name } = reference as { type: string; name?: unknown };
  const kind = kinds[type] ?? ToolKind.UNSPECIFIED;
  return decode.toolName(kind !== ToolKind.UNSPECIFIED && typeof name === 'string' ? name : type, kind);
}

function decodeOutputFormat(
  text: NonNullable<ResponsesBody['text']>,
  unknown: UnknownMembers,
): OutputFormat | undefined {
  const { format } = text;
  unknown.note(text, knownOfText, 'text');
  unknown.note(format, knownOfFormat, 'text.format');
  if (format == null) return undefined;
  return format.type === 'json_schema' ? decode.schemaFormat(format) : decode.plainFormat(format.type);
}
