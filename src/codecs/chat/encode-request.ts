import { Protocol, ToolKind } from '../../gen/tollgate/v1/content_pb.ts';
import {
  type GenerateRequest,
  type OutputFormat,
  OutputFormatType,
  type ReasoningConfig,
  ReasoningEffort,
  ThinkingMode,
  type Tool,
  type ToolChoice,
  ToolChoiceMode,
  type ToolName,
} from '../../gen/tollgate/v1/request_pb.ts';
import type { EncodedRequest, EncodeInput, Json, JsonObject } from '../codec.ts';
import type { Dialect } from '../dialect.ts';
import { checkToolName, Drops, dropUnknown, isContinued, unsupportedContent, unsupportedTool } from '../drops.ts';
import { effortName, toEffort } from '../effort.ts';
import { defined, fieldJson, listIn } from '../json.ts';
import { toolChoiceName } from '../request.ts';
import { sentBody } from '../sent-body.ts';
import { patchServiceTier, tierName } from '../service-tier.ts';
import { applyDialect } from './apply-dialect.ts';
import { encodeMessages } from './encode-messages.ts';
import { extras } from './extras.ts';
import { withOrderedResults } from './order-results.ts';

/**
 * Encodes the body for a Chat Completions upstream. The JSON of a Chat client is patched, so that nothing in it is lost; any other request
 * is built from the `GenerateRequest`. The same input gives the same bytes. Sources: docs/interfaces/README.md
 * "Translation", "Refused, listed or dropped". Throws `unsupported_parameter`.
 */
export function encodeRequest(input: EncodeInput): EncodedRequest {
  const { source } = input.request;
  const drops = new Drops();
  if (source?.protocol === Protocol.CHAT) {
    const sent = sentBody(source);
    const body = patched(input, sent.body);
    applyDialect(body, input.dialect ?? standard, drops);
    return { ...sent, body, dropped: drops.list() };
  }
  const body = built(input, drops);
  if (input.dialect !== undefined) applyDialect(body, input.dialect, drops);
  dropUnknown(source, drops);
  return { body, dropped: drops.list() };
}

/** A server that takes the protocol as it is. */
const standard: Dialect = {};

/** Changes the body of a Chat client as the route requires. */
function patched(
  { request, model, maxOutputTokens, stream, dialect = standard }: EncodeInput,
  body: JsonObject,
): JsonObject {
  body['model'] = model;
  body['messages'] = [...withOrderedResults(listIn(body['messages']))];
  patchLimit(body, maxOutputTokens, dialect);
  patchServiceTier(body, request, ['auto', 'default']);
  // The gateway stores; a provider must not.
  delete body['store'];
  delete body['metadata'];
  if (typeof body['n'] === 'number') body['n'] = request.candidates ?? 1;
  patchSeed(body, request);
  if (stream) {
    body['stream'] = true;
    if (dialect.streamOptions === 'refused') delete body['stream_options'];
    else {
      const own = body['stream_options'] as JsonObject | null | undefined;
      body['stream_options'] = { ...own, ...streamOptions(dialect) };
    }
    if (dialect.runningCounts === 'timings') body['timings_per_token'] = true;
  } else {
    delete body['stream'];
    delete body['stream_options'];
  }
  return body;
}

/** Sets the seed: if several upstream requests make the answers of one request, each has another seed. */
function patchSeed(body: JsonObject, { sampling }: GenerateRequest): void {
  const seed = sampling?.seed === undefined ? undefined : Number(sampling.seed);
  if (seed !== undefined && body['seed'] !== seed) body['seed'] = seed;
}

/** The names of the output limit; newer upstreams require the first one. */
const limitNames = ['max_completion_tokens', 'max_tokens'] as const;

/** Sets the output limit under the name that the client used; if the client set none, under the name that newer upstreams require. */
function patchLimit(body: JsonObject, limit: number | undefined, { limitName }: Dialect): void {
  if (limit === undefined) {
    for (const name of limitNames) if (typeof body[name] === 'number') delete body[name];
    return;
  }
  if (limitName !== undefined) {
    for (const name of limitNames) delete body[name];
    body[limitName] = limit;
    return;
  }
  const named = limitNames.filter(name => typeof body[name] === 'number');
  for (const name of named.length === 0 ? [limitNames[0]] : named) body[name] = limit;
}

/** Returns the options of a stream: usage at its end, and running usage if the server supports it. */
function streamOptions({ runningCounts }: Dialect): JsonObject {
  return { include_usage: true, ...(runningCounts === 'usage' ? { continuous_usage_stats: true } : {}) };
}

function built(
  { request, model, maxOutputTokens, stream, provider, dialect = standard }: EncodeInput,
  drops: Drops,
): JsonObject {
  if (isContinued(request)) {
    throw unsupportedContent(request, 'a last message of the assistant');
  }
  const body: JsonObject = { model, messages: encodeMessages(request, drops, provider) };
  const set = (name: string, value: Json | undefined): void => {
    if (value !== undefined) body[name] = value;
  };
  if (request.tools.length > 0) {
    body['tools'] = request.tools.map((tool, index) => encodeTool(tool, `tools.${index}`));
    if (request.toolChoice !== undefined) body['tool_choice'] = encodeToolChoice(request.toolChoice);
    set('parallel_tool_calls', request.parallelToolCalls);
  }
  set('response_format', encodeFormat(request.outputFormat));
  set('verbosity', request.verbosity);
  set('reasoning_effort', encodeEffort(request.reasoning));
  setSampling(request, set, drops);
  set(dialect.limitName ?? 'max_completion_tokens', maxOutputTokens);
  // The gateway itself also matches all stop sequences, those beyond the fourth included.
  if (request.stop.length > 0) body['stop'] = request.stop.slice(0, 4);
  if ((request.candidates ?? 1) > 1) set('n', request.candidates);
  set('service_tier', tierName(request));
  set('prompt_cache_key', request.promptCacheKey);
  set('user', request.user);
  set('safety_identifier', request.safetyIdentifier);
  if (stream) {
    body['stream'] = true;
    if (dialect.streamOptions !== 'refused') body['stream_options'] = streamOptions(dialect);
    if (dialect.runningCounts === 'timings') body['timings_per_token'] = true;
  }
  return body;
}

function setSampling(
  request: GenerateRequest,
  set: (name: string, value: Json | undefined) => void,
  drops: Drops,
): void {
  const { sampling } = request;
  const wantsLogprobs = sampling?.logprobs ?? (request.include.includes('message.output_text.logprobs') || undefined);
  set('logprobs', wantsLogprobs);
  if (sampling === undefined) return;
  set('temperature', sampling.temperature);
  set('top_p', sampling.topP);
  set('frequency_penalty', sampling.frequencyPenalty);
  set('presence_penalty', sampling.presencePenalty);
  set('seed', sampling.seed === undefined ? undefined : Number(sampling.seed));
  if (wantsLogprobs === true) set('top_logprobs', sampling.topLogprobs);
  if (Object.keys(sampling.logitBias).length > 0) set('logit_bias', sampling.logitBias);
  if (sampling.topK !== undefined) drops.add('top_k');
}

function encodeEffort(reasoning: ReasoningConfig | undefined): string | undefined {
  if (reasoning === undefined) return undefined;
  if (reasoning.effort !== ReasoningEffort.UNSPECIFIED) return effortName(reasoning.effort);
  if (reasoning.thinking === ThinkingMode.DISABLED) return 'none';
  return reasoning.budgetTokens === undefined ? undefined : effortName(toEffort(reasoning.budgetTokens));
}

function encodeTool(tool: Tool, path: string): JsonObject {
  const { tool: content } = tool;
  switch (content.case) {
    case 'function': {
      const { name, description, parametersJson, strict } = content.value;
      checkToolName(name, `${path}.name`);
      const body = defined({ name, description, parameters: fieldJson(parametersJson), strict });
      return { type: 'function', function: body, ...extras.members(tool.extra) };
    }
    case 'custom': {
      const { name, description, formatJson } = content.value;
      const body = defined({ name, description, format: fieldJson(formatJson) });
      return { type: 'custom', custom: body, ...extras.members(tool.extra) };
    }
    default: {
      const own = content.case === 'hosted' ? extras.own(content.value) : undefined;
      if (own === undefined) throw unsupportedTool(tool, path);
      return own;
    }
  }
}

function encodeToolChoice({ mode, tools, restricted }: ToolChoice): Json {
  if (mode === ToolChoiceMode.NAMED && tools[0] !== undefined) return reference(tools[0]);
  const rule = toolChoiceName(mode);
  if (!restricted) return rule;
  // Chat can't restrict the allowed tools and forbid calls at the same time.
  if (mode === ToolChoiceMode.NONE) return 'none';
  return { type: 'allowed_tools', allowed_tools: { mode: rule, tools: tools.map(reference) } };
}

function reference({ name, kind }: ToolName): JsonObject {
  return kind === ToolKind.CUSTOM ? { type: 'custom', custom: { name } } : { type: 'function', function: { name } };
}

function encodeFormat(format: OutputFormat | undefined): JsonObject | undefined {
  if (format?.type === OutputFormatType.JSON_OBJECT) return { type: 'json_object' };
  if (format?.type === OutputFormatType.TEXT) return { type: 'text' };
  if (format?.type !== OutputFormatType.JSON_SCHEMA) return undefined;
  const { name, description, schemaJson, strict } = format;
  return { type: 'json_schema', json_schema: defined({ name, description, schema: fieldJson(schemaJson), strict }) };
}
