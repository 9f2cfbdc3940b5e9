import { Protocol, ToolKind } from '../../gen/tollgate/v1/content_pb.ts';
import { ExtensionScope } from '../../gen/tollgate/v1/event_pb.ts';
import {
  type GenerateRequest,
  OutputFormatType,
  type ReasoningConfig,
  type Tool,
  ToolChoiceMode,
  type ToolName,
  Truncation,
} from '../../gen/tollgate/v1/request_pb.ts';
import type { Json, JsonObject } from '../codec.ts';
import { effortName } from '../effort.ts';
import { fieldJson } from '../json.ts';
import { toolChoiceName } from '../request.ts';
import { encodeFormat } from './custom-format.ts';
import { extras } from './extras.ts';
import { isShown, renderItem } from './render-item.ts';
import { incompleteReason, type ResponseOutcome } from '../../generation/response-fold.ts';
import { renderServiceTier } from '../service-tier.ts';
import { renderUsage } from './usage.ts';

/** Renders the response object. Source: docs/interfaces/responses.md "Response", "Stream", "Open Responses"; translation cases RP-08, RP-17, RP-18, JS-08. */

/** The facts of a response when it begins; its outcome is separate. */
export interface ResponseFacts {
  /** "resp_…". */
  readonly id: string;
  /** The listed id of the model. */
  readonly model: string;
  /** When it was requested, in milliseconds since 1970 UTC. */
  readonly createdAtMs: number;
  /** The original request; only its settings are read, never its items. */
  readonly request: GenerateRequest;
  readonly previousResponseId: string | undefined;
  /** The conversation that it belongs to; absent if none. */
  readonly conversationId?: string | undefined;
  readonly store: boolean;
  readonly background: boolean;
}

/** Renders a response object with all fields; settings that were not requested have their defaults. */
export function renderResource(facts: ResponseFacts, outcome: ResponseOutcome): JsonObject {
  return resourceWith(facts, outcome, renderSettings(facts));
}

/** Like `renderResource`, with settings that `renderSettings` has returned; they do not change while a response runs. */
export function resourceWith(facts: ResponseFacts, outcome: ResponseOutcome, settings: JsonObject): JsonObject {
  const { status, items, finished, completed, error } = outcome;
  const known = status === 'incomplete' && finished !== undefined ? incompleteReason(finished, items) : undefined;
  // An unknown reason of a Responses upstream is passed through, and so is that it gave none.
  const own =
    finished?.protocol === Protocol.RESPONSES && finished.native !== 'incomplete' ? finished.native : undefined;
  const reason = finished?.protocol === Protocol.RESPONSES && known !== undefined ? own : known;
  const tier = completed ?? facts.request;
  return {
    ...extras.ofExtensions(outcome.extensions ?? [], ExtensionScope.RESPONSE),
    id: facts.id,
    object: 'response',
    created_at: toSeconds(facts.createdAtMs),
    completed_at: status === 'completed' && completed !== undefined ? toSeconds(Number(completed.completedAtMs)) : null,
    status,
    incomplete_details: reason === undefined ? null : { reason },
    error: error === undefined ? null : { code: error.code, message: error.message.toWellFormed() },
    model: facts.model,
    output: items.filter(isShown).map(renderItem),
    ...settings,
    service_tier: renderServiceTier(tier),
    usage: completed === undefined ? null : renderUsage(completed),
  };
}

function toSeconds(ms: number): number {
  return Math.floor(ms / 1000);
}

/** Returns the members of a response object that repeat the request. */
export function renderSettings(facts: ResponseFacts): JsonObject {
  const { request, previousResponseId, conversationId, store, background } = facts;
  const { sampling } = request;
  return {
    previous_response_id: previousResponseId ?? null,
    conversation: conversationId === undefined ? null : { id: conversationId },
    instructions: request.instructions?.toWellFormed() ?? null,
    tools: renderTools(request.tools),
    tool_choice: renderToolChoice(request),
    parallel_tool_calls: request.parallelToolCalls ?? true,
    max_tool_calls: request.maxToolCalls ?? null,
    max_output_tokens: request.maxOutputTokens ?? null,
    truncation: request.truncation === Truncation.AUTO ? 'auto' : 'disabled',
    text: { format: renderFormat(request), verbosity: request.verbosity ?? 'medium' },
    reasoning: renderReasoning(request.reasoning),
    temperature: sampling?.temperature ?? 1,
    top_p: sampling?.topP ?? 1,
    presence_penalty: sampling?.presencePenalty ?? 0,
    frequency_penalty: sampling?.frequencyPenalty ?? 0,
    top_logprobs: sampling?.topLogprobs ?? 0,
    store,
    background,
    metadata: { ...request.metadata },
    safety_identifier: request.safetyIdentifier ?? null,
    prompt_cache_key: request.promptCacheKey ?? null,
  };
}

function renderReasoning(reasoning: ReasoningConfig | undefined): Json {
  if (reasoning === undefined) return null;
  return { effort: effortName(reasoning.effort) ?? null, summary: reasoning.summary ?? null };
}

function renderFormat({ outputFormat }: GenerateRequest): JsonObject {
  switch (outputFormat?.type) {
    case OutputFormatType.JSON_OBJECT:
      return { type: 'json_object' };
    case OutputFormatType.JSON_SCHEMA: {
      const { name, description, schemaJson, strict } = outputFormat;
      const schema = fieldJson(schemaJson) ?? null;
      return { type: 'json_schema', name, description: description ?? null, schema, strict: strict ?? false };
    }
    default:
      return { type: 'text' };
  }
}

/** Renders tools; those of one namespace, which follow each other, become one group. */
function renderTools(tools: readonly Tool[]): JsonObject[] {
  const shown: JsonObject[] = [];
  let group: { readonly name: string; readonly tools: JsonObject[] } | undefined;
  for (const tool of tools) {
    const { namespace } = tool;
    const rendered = renderTool(tool);
    if (namespace === undefined) {
      group = undefined;
      shown.push(rendered);
      continue;
    }
    if (group?.name === namespace.name) {
      group.tools.push(rendered);
      continue;
    }
    const { name, description, extra } = namespace;
    group = { name, tools: [rendered] };
    const content = { type: 'namespace', name, description: description ?? null, tools: group.tools };
    shown.push({ ...extras.members(extra), ...content });
  }
  return shown;
}

function renderTool({ tool, extra, deferred }: Tool): JsonObject {
  const members = { ...extras.members(extra), ...(deferred === undefined ? {} : { defer_loading: deferred }) };
  switch (tool.case) {
    case 'function': {
      const { name, description, parametersJson, strict } = tool.value;
      const parameters = fieldJson(parametersJson) ?? null;
      const content = { description: description ?? null, parameters, strict: strict ?? false };
      return { ...members, type: 'function', name, ...content };
    }
    case 'custom': {
      const { name, description, formatJson } = tool.value;
      const format = encodeFormat(formatJson) ?? { type: 'text' };
      return { ...members, type: 'custom', name, description: description ?? null, format };
    }
    case 'hosted':
      return JSON.parse(tool.value.json) as JsonObject;
    default:
      return {};
  }
}

/** Renders a reference to a tool: its type and name, or only its type if the upstream runs it. */
export function toolReference({ name, kind }: ToolName): JsonObject {
  if (kind === ToolKind.UNSPECIFIED) return { type: name };
  return { type: kind === ToolKind.CUSTOM ? 'custom' : 'function', name };
}

/** Renders the rule about which tools may or must be called. */
export function renderToolChoice({ toolChoice }: GenerateRequest): Json {
  if (toolChoice === undefined) return 'auto';
  const { mode, tools, restricted } = toolChoice;
  const [first] = tools;
  if (mode === ToolChoiceMode.NAMED && first !== undefined) return toolReference(first);
  const rule = toolChoiceName(mode);
  return restricted ? { type: 'allowed_tools', mode: rule, tools: tools.map(toolReference) } : rule;
}
