import { Protocol } from '../../gen/tollgate/v1/content_pb.ts';
import {
  type GenerateRequest,
  type OutputFormat,
  OutputFormatType,
  type ReasoningConfig,
  ReasoningEffort,
  ThinkingMode,
  type Tool,
} from '../../gen/tollgate/v1/request_pb.ts';
import { fieldName } from '../../generation/check/field-names.ts';
import type { EncodedRequest, EncodeInput, Json, JsonObject } from '../codec.ts';
import {
  checkToolName,
  Drops,
  dropUnknown,
  isContinued,
  unsupported,
  unsupportedContent,
  unsupportedTool,
} from '../drops.ts';
import { effortName, toEffort } from '../effort.ts';
import { tierName } from '../service-tier.ts';
import { defined, fieldJson } from '../json.ts';
import { encodeFormat } from './custom-format.ts';
import { InputEncoder } from './encode-input.ts';
import { extras } from './extras.ts';
import { includes, outputLimit, patchedRequest } from './patch-request.ts';
import { renderToolChoice } from './resource.ts';

/**
 * Encodes the body for a Responses upstream. The JSON of a Responses client is patched, so that nothing in it is lost; any other request is
 * built from the `GenerateRequest`. The upstream is told to store nothing. The same input gives the same bytes. Sources: docs/interfaces/README.md
 * "Translation", "Refused, listed or dropped"; docs/interfaces/responses.md "Stream". Throws `unsupported_parameter`.
 */
export function encodeRequest(input: EncodeInput): EncodedRequest {
  const drops = new Drops();
  const { source } = input.request;
  if (source?.protocol === Protocol.RESPONSES) {
    return { ...patchedRequest(input, source, drops), dropped: drops.list() };
  }
  dropUnknown(source, drops);
  return { body: built(input, drops), dropped: drops.list() };
}

function built(input: EncodeInput, drops: Drops): JsonObject {
  const { request, model, maxOutputTokens, stream, provider } = input;
  refuse(request);
  const encoder = new InputEncoder(request, drops, provider);
  const body: JsonObject = { model };
  const set = (name: string, value: Json | undefined): void => {
    if (value !== undefined) body[name] = value;
  };
  set('instructions', request.instructions);
  body['input'] = request.items.map(item => encoder.encode(item)).filter(item => item !== undefined);
  if (request.tools.length > 0) {
    body['tools'] = request.tools.map((tool, index) => encodeTool(tool, `tools.${index}`, request));
    if (request.toolChoice !== undefined) body['tool_choice'] = renderToolChoice(request);
    set('parallel_tool_calls', request.parallelToolCalls);
  }
  set('max_tool_calls', request.maxToolCalls);
  set('text', encodeText(request));
  set('reasoning', encodeReasoning(request.reasoning));
  setSampling(request, set, drops);
  if (maxOutputTokens !== undefined) set('max_output_tokens', outputLimit(maxOutputTokens));
  set('service_tier', tierName(request));
  set('prompt_cache_key', request.promptCacheKey);
  set('safety_identifier', request.safetyIdentifier);
  set('user', request.user);
  const include = includes(input);
  if (wantsLogprobs(request) && !include.includes(logprobs)) include.push(logprobs);
  if (include.length > 0) body['include'] = include;
  body['store'] = false;
  if (stream) body['stream'] = true;
  return body;
}

const logprobs = 'message.output_text.logprobs';

function wantsLogprobs({ sampling, include }: GenerateRequest): boolean {
  return sampling?.logprobs === true || include.includes(logprobs);
}

/** Throws for fields whose loss would change the client's result. */
function refuse(request: GenerateRequest): void {
  if (isContinued(request)) {
    throw unsupportedContent(request, 'a last message of the assistant');
  }
  if (Object.keys(request.sampling?.logitBias ?? {}).length > 0) throw unsupported('logit_bias', 'biased tokens');
  if ((request.candidates ?? 1) > 1) {
    throw unsupported(fieldName(request.endpoint, 'candidates'), 'more than one answer to a request');
  }
}

/**
 * Sets the sampling fields that Responses has; the others are dropped and listed. Penalties, which only some upstreams accept, are sent only
 * for Responses clients.
 */
function setSampling(
  request: GenerateRequest,
  set: (name: string, value: Json | undefined) => void,
  drops: Drops,
): void {
  const { sampling, source } = request;
  if (sampling === undefined) return;
  set('temperature', sampling.temperature);
  set('top_p', sampling.topP);
  if (wantsLogprobs(request)) set('top_logprobs', sampling.topLogprobs);
  const penalties = { frequency_penalty: sampling.frequencyPenalty, presence_penalty: sampling.presencePenalty };
  for (const [name, value] of Object.entries(penalties)) {
    if (source === undefined) set(name, value);
    else if (value !== undefined && value !== 0) drops.add(name);
  }
  if (sampling.seed !== undefined) drops.add('seed');
  if (sampling.topK !== undefined) drops.add('top_k');
}

function encodeText({ outputFormat, verbosity }: GenerateRequest): JsonObject | undefined {
  const format = encodeOutputFormat(outputFormat);
  return format === undefined && verbosity === undefined ? undefined : defined({ format, verbosity });
}

function encodeOutputFormat(format: OutputFormat | undefined): JsonObject | undefined {
  switch (format?.type) {
    case OutputFormatType.TEXT:
      return { type: 'text' };
    case OutputFormatType.JSON_OBJECT:
      return { type: 'json_object' };
    case OutputFormatType.JSON_SCHEMA: {
      const { name, description, schemaJson, strict } = format;
      // Responses requires a schema; the empty one allows everything.
      const schema = fieldJson(schemaJson) ?? {};
      return defined({ type: 'json_schema', name, description, schema, strict });
    }
    default:
      return undefined;
  }
}

/**
 * Encodes reasoning settings; readable reasoning is requested as summaries. Source: docs/interfaces/README.md "Effort and thinking budgets",
 * "Translation".
 */
function encodeReasoning(reasoning: ReasoningConfig | undefined): JsonObject | undefined {
  if (reasoning === undefined) return undefined;
  const effort = chooseEffort(reasoning);
  const summary = reasoning.summary ?? (isShown(reasoning) ? 'auto' : undefined);
  return effort === undefined && summary === undefined ? undefined : defined({ effort, summary });
}

function chooseEffort({ effort, thinking, budgetTokens }: ReasoningConfig): string | undefined {
  if (thinking === ThinkingMode.DISABLED) return 'none';
  if (effort !== ReasoningEffort.UNSPECIFIED) return effortName(effort);
  return budgetTokens === undefined ? undefined : effortName(toEffort(budgetTokens));
}

/** Returns whether a Messages request wants to see reasoning, which is the default there. */
function isShown({ thinking, display }: ReasoningConfig): boolean {
  return thinking !== ThinkingMode.UNSPECIFIED && thinking !== ThinkingMode.DISABLED && display !== 'omitted';
}

function encodeTool(tool: Tool, path: string, request: GenerateRequest): JsonObject {
  const { tool: content } = tool;
  switch (content.case) {
    case 'function': {
      const { name, description, parametersJson } = content.value;
      checkToolName(name, `${path}.name`);
      // Absent means strict in Responses, but not in other interfaces (translation case CH-08).
      const strict = content.value.strict ?? (request.source === undefined ? undefined : false);
      const rendered = defined({ name, description, parameters: fieldJson(parametersJson), strict });
      return { type: 'function', ...rendered, ...extras.members(tool.extra) };
    }
    case 'custom': {
      const { name, description, formatJson } = content.value;
      checkToolName(name, `${path}.name`);
      const rendered = defined({ name, description, format: encodeFormat(formatJson) });
      return { type: 'custom', ...rendered, ...extras.members(tool.extra) };
    }
    default: {
      const own = content.case === 'hosted' ? extras.own(content.value) : undefined;
      if (own === undefined) throw unsupportedTool(tool, path);
      return own;
    }
  }
}
