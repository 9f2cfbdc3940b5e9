import { Protocol, ToolKind } from '../../gen/tollgate/v1/content_pb.ts';
import {
  Endpoint,
  type OutputFormat,
  type Tool,
  type ToolChoice,
  type ToolName,
} from '../../gen/tollgate/v1/request_pb.ts';
import { cacheHint } from '../cache-hint.ts';
import type { DecodedRequest, ReceivedRequest } from '../codec.ts';
import { makeRequest } from '../content.ts';
import { defined } from '../json.ts';
import * as decode from '../request.ts';
import { invalidField, members, parseBody, UnknownMembers, UnknownValue } from '../schema.ts';
import { decodeServiceTier } from '../service-tier.ts';
import { decodeMessages } from './decode-messages.ts';
import { extras } from './extras.ts';
import {
  type ChatRequest,
  chatRequestSchema,
  type ChatResponseFormat,
  type ChatTool,
  type ChatToolReference,
} from './request-schema.ts';

/** Decodes Chat Completions requests to the contract's `GenerateRequest`. Sources: docs/interfaces/chat-completions.md "Request"; docs/interfaces/README.md "Translation". */

const known = new Set(Object.keys(chatRequestSchema.shape));
/** `modalities` changes nothing if it lists only text. */
const knownTextOnlyMembers = new Set([...known, 'modalities']);
const knownToolMembers = members('type', 'function', 'custom', 'cache_control', 'prompt_cache_breakpoint');
const knownFunctionMembers = members('name', 'description', 'parameters', 'strict');
const knownCustomMembers = members('name', 'description', 'format');
const knownFormatMembers = members('type', 'json_schema');
const knownJsonSchemaMembers = members('name', 'description', 'schema', 'strict');
/** `include_obfuscation` pads OpenAI's own streams: nothing is lost without it. */
const knownStreamOptionsMembers = members('include_usage', 'include_obfuscation');

/** Decodes a request. Throws `validation_error` if a field is invalid. */
export function decodeRequest(received: ReceivedRequest): DecodedRequest {
  const body = parseBody(chatRequestSchema, received.body);
  checkFieldPairs(body);
  const unknown = new UnknownMembers(Protocol.CHAT);
  unknown.collectFromBody(body, isTextOnly(body['modalities']) ? knownTextOnlyMembers : known);
  unknown.list(body.stream_options, knownStreamOptionsMembers, 'stream_options');
  const { stop } = body;
  const format = unknown.knownOrRefuse(body.response_format, 'response_format');
  const effort = unknown.knownOrWarn(body.reasoning_effort, 'reasoning_effort');
  const request = makeRequest({
    model: body.model,
    endpoint: Endpoint.CHAT_COMPLETIONS,
    delivery: decode.delivery(body.stream),
    items: decodeMessages(body.messages, unknown),
    tools: decodeTools(body, unknown),
    stop: typeof stop === 'string' ? [stop] : (stop ?? []),
    ...decodeServiceTier(body.service_tier),
    metadata: body.metadata ?? {},
    ...decode.sharedFields(body),
    ...decode.sampling(body, unknown.knownOrRefuse(body.logit_bias, 'logit_bias')),
    ...defined({
      maxOutputTokens: decode.clampToUint32(body.max_completion_tokens ?? body.max_tokens),
      toolChoice: decodeToolChoice(body, unknown),
      outputFormat: format === undefined ? undefined : decodeFormat(format, unknown),
      reasoning: effort === undefined ? undefined : decode.reasoningConfig(effort),
      verbosity: unknown.knownOrWarn(body.verbosity, 'verbosity'),
      candidates: body.n ?? undefined,
    }),
  });
  request.source = decode.sourceRequest(Protocol.CHAT, { raw: received.raw, body, unknown });
  const stream = body.stream === true;
  const decoded = { request, stream, includeUsage: body.stream_options?.include_usage === true };
  return body.functions == null ? decoded : { ...decoded, legacyFunctions: true };
}

function isTextOnly(modalities: unknown): boolean {
  return Array.isArray(modalities) && modalities.every(modality => modality === 'text');
}

/** Checks the rules between two fields. */
function checkFieldPairs(body: ChatRequest): void {
  const { max_tokens: old, max_completion_tokens: limit, logprobs, top_logprobs: top } = body;
  if (old != null && limit != null && old !== limit) {
    throw invalidField('max_completion_tokens', 'differs from `max_tokens`: send only one of them');
  }
  if (top != null && logprobs !== true) throw invalidField('top_logprobs', 'needs `logprobs` to be true');
  if (body.tools != null && body.functions != null) {
    throw invalidField('functions', 'is the deprecated form of `tools`: send only one of them');
  }
}

function decodeTools(body: ChatRequest, unknown: UnknownMembers): Tool[] {
  if (body.functions != null) {
    return body.functions.map((each, index) => {
      unknown.list(each, knownFunctionMembers, `functions.${index}`);
      return decode.makeTool(decode.functionTool({ ...each, strict: undefined }), {});
    });
  }
  return (body.tools ?? []).map((tool, index) => decodeTool(tool, unknown, `tools.${index}`));
}

function decodeTool(tool: ChatTool | UnknownValue, unknown: UnknownMembers, path: string): Tool {
  if (tool instanceof UnknownValue) return decode.makeTool(extras.hostedTool(tool.value as { type: string }), {});
  const extra = unknown.collect(tool, knownToolMembers, path);
  const hints = { ...cacheHint(tool), ...defined({ extra }) };
  if (tool.type === 'function') {
    unknown.list(tool.function, knownFunctionMembers, `${path}.function`);
    return decode.makeTool(decode.functionTool(tool.function), hints);
  }
  const { format } = tool.custom;
  unknown.list(tool.custom, knownCustomMembers, `${path}.custom`);
  return decode.makeTool(decode.customTool(tool.custom, format == null ? '' : JSON.stringify(format)), hints);
}

function decodeToolChoice(body: ChatRequest, unknown: UnknownMembers): ToolChoice | undefined {
  const choice = unknown.knownOrRefuse(body.tool_choice, 'tool_choice');
  const legacy = unknown.knownOrRefuse(body.function_call, 'function_call');
  if (choice === undefined) {
    if (legacy === undefined) return undefined;
    return typeof legacy === 'string'
      ? decode.toolChoice(legacy)
      : decode.toolChoice('named', [decode.toolName(legacy.name)]);
  }
  if (typeof choice === 'string') return decode.toolChoice(choice);
  if (choice.type !== 'allowed_tools') return decode.toolChoice('named', [readReference(choice)]);
  const { mode, tools } = choice.allowed_tools;
  const path = 'tool_choice.allowed_tools';
  const allowed = tools.flatMap((tool, index) => unknown.knownOrRefuse(tool, `${path}.tools.${index}`) ?? []);
  return decode.toolChoice(unknown.knownOrRefuse(mode, `${path}.mode`) ?? 'auto', allowed.map(readReference), true);
}

function readReference(reference: ChatToolReference): ToolName {
  if (reference.type === 'function') return decode.toolName(reference.function.name);
  return decode.toolName(reference.custom.name, ToolKind.CUSTOM);
}

function decodeFormat(format: ChatResponseFormat, unknown: UnknownMembers): OutputFormat {
  unknown.list(format, knownFormatMembers, 'response_format');
  if (format.type !== 'json_schema') return decode.plainFormat(format.type);
  unknown.list(format.json_schema, knownJsonSchemaMembers, 'response_format.json_schema');
  // Other protocols require a name for a schema.
  return decode.schemaFormat({ ...format.json_schema, name: format.json_schema.name ?? 'response' });
}
