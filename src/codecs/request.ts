import { type Protocol, ToolKind } from '../gen/tollgate/v1/content_pb.ts';
import {
  Delivery,
  type GenerateRequest,
  type OutputFormat,
  OutputFormatType,
  type ReasoningConfig,
  type Sampling,
  ThinkingMode,
  type Tool,
  type ToolChoice,
  ToolChoiceMode,
  type ToolName,
} from '../gen/tollgate/v1/request_pb.ts';
import { findMemberFeature } from '../generation/priced-features.ts';
import type { JsonObject, ReceivedRequest } from './codec.ts';
import { makeSampling } from './content.ts';
import { decodeEffort, type EffortName } from './effort.ts';
import { defined } from './json.ts';
import type { UnknownMembers } from './schema.ts';

/** Builds parts of a request from members that the interfaces share. A member that is null was not sent. */

type MaybeSent<T> = T | null | undefined;

/** Returns how the answer is delivered. */
export function delivery(stream: MaybeSent<boolean>): Delivery {
  return stream === true ? Delivery.STREAMED : Delivery.WHOLE;
}

/** Caps a count at the largest `uint32`, the type of the contract's fields. A limit that high is above every model's anyway. */
export function clampToUint32(count: MaybeSent<number>): number | undefined {
  return count == null ? undefined : Math.min(count, 2 ** 32 - 1);
}

/** Returns the client's original request. `headers`: the headers that an upstream of the same protocol also gets. */
export function sourceRequest(
  protocol: Protocol,
  { raw, body, unknown }: Pick<ReceivedRequest, 'raw'> & { readonly body: object; readonly unknown: UnknownMembers },
  headers: Record<string, string> = {},
): GenerateRequest['source'] & object {
  const { paths, values, length } = unknown;
  return {
    $typeName: 'tollgate.v1.SourceRequest',
    protocol,
    body: raw,
    unknownFields: paths,
    unknownValues: values,
    pricedFields: paths.length === 0 ? [] : paths.filter(path => isPriced(body as JsonObject, path)),
    unknownLength: length,
    headers,
  };
}

function isPriced(body: JsonObject, member: string): boolean {
  return findMemberFeature(member, body[member] ?? null) !== undefined;
}

/** Members that mean the same in Chat Completions and Responses. */
interface SharedMembers {
  readonly parallel_tool_calls?: MaybeSent<boolean>;
  readonly prompt_cache_key?: MaybeSent<string>;
  readonly safety_identifier?: MaybeSent<string>;
  readonly user?: MaybeSent<string>;
  readonly store?: MaybeSent<boolean>;
}

/** Returns the fields of a request for members that mean the same in Chat Completions and Responses. */
export function sharedFields(body: SharedMembers): Partial<GenerateRequest> {
  return defined({
    parallelToolCalls: body.parallel_tool_calls ?? undefined,
    promptCacheKey: body.prompt_cache_key ?? undefined,
    safetyIdentifier: body.safety_identifier ?? undefined,
    user: body.user ?? undefined,
    store: body.store ?? undefined,
  });
}

/** Members about sampling, by the names that all interfaces use. */
interface SamplingMembers {
  readonly temperature?: MaybeSent<number>;
  readonly top_p?: MaybeSent<number>;
  readonly top_k?: MaybeSent<number>;
  readonly frequency_penalty?: MaybeSent<number>;
  readonly presence_penalty?: MaybeSent<number>;
  readonly seed?: MaybeSent<number>;
  readonly logprobs?: MaybeSent<boolean>;
  readonly top_logprobs?: MaybeSent<number>;
}

/** Returns the sampling as a field of the request; an empty object if nothing is set. */
export function sampling(body: SamplingMembers, logitBias?: Record<string, number>): { sampling?: Sampling } {
  const { seed } = body;
  const fields = defined({
    temperature: body.temperature ?? undefined,
    topP: body.top_p ?? undefined,
    topK: clampToUint32(body.top_k),
    frequencyPenalty: body.frequency_penalty ?? undefined,
    presencePenalty: body.presence_penalty ?? undefined,
    // JSON rounds 2^63 - 1, the largest seed that official clients send, to 2^63.
    seed: seed == null ? undefined : seed >= 2 ** 63 ? 2n ** 63n - 1n : BigInt(seed),
    logitBias,
    logprobs: body.logprobs ?? undefined,
    topLogprobs: body.top_logprobs ?? undefined,
  });
  return Object.keys(fields).length === 0 ? {} : { sampling: makeSampling(fields) };
}

/** Returns the reasoning settings for an effort and a thinking mode; an absent effort means unspecified. */
export function reasoningConfig(
  effort: MaybeSent<EffortName>,
  thinking: ThinkingMode = ThinkingMode.UNSPECIFIED,
): ReasoningConfig {
  return { $typeName: 'tollgate.v1.ReasoningConfig', effort: decodeEffort(effort), thinking };
}

/** Returns a tool with its hints: cache, unknown members, deferral, namespace. */
export function makeTool(tool: Tool['tool'], hints: Pick<Tool, 'cache' | 'extra' | 'deferred' | 'namespace'>): Tool {
  return { $typeName: 'tollgate.v1.Tool', tool, ...defined(hints) };
}

/** The members of a tool that the client runs. */
interface ToolMembers {
  readonly name: string;
  readonly description?: MaybeSent<string>;
  readonly parameters?: MaybeSent<JsonObject>;
  readonly strict?: MaybeSent<boolean>;
}

/** Returns a tool with a schema of its arguments. */
export function functionTool({ name, description, parameters, strict }: ToolMembers): Tool['tool'] {
  const parametersJson = parameters == null ? '' : JSON.stringify(parameters);
  const fields = { name, description: description ?? undefined, parametersJson, strict: strict ?? undefined };
  return { case: 'function', value: { $typeName: 'tollgate.v1.FunctionTool', ...fields } };
}

/** Returns a tool that takes free text; `formatJson` '' means any text. */
export function customTool({ name, description }: ToolMembers, formatJson: string): Tool['tool'] {
  const fields = { name, description: description ?? undefined, formatJson };
  return { case: 'custom', value: { $typeName: 'tollgate.v1.CustomTool', ...fields } };
}

const modes = {
  none: ToolChoiceMode.NONE,
  auto: ToolChoiceMode.AUTO,
  required: ToolChoiceMode.REQUIRED,
  named: ToolChoiceMode.NAMED,
} as const;

/** Returns the tool choice. `restricted`: only `tools` may be called. */
export function toolChoice(mode: keyof typeof modes, tools: ToolName[] = [], restricted = false): ToolChoice {
  return { $typeName: 'tollgate.v1.ToolChoice', mode: modes[mode], tools, restricted };
}

/** Returns the tool choice as OpenAI's protocols write it; they have no separate mode for a named tool. */
export function toolChoiceName(mode: ToolChoiceMode): 'none' | 'auto' | 'required' {
  if (mode === ToolChoiceMode.NONE) return 'none';
  return mode === ToolChoiceMode.REQUIRED || mode === ToolChoiceMode.NAMED ? 'required' : 'auto';
}

/** Builds a `ToolName` message. */
export function toolName(name: string, kind: ToolKind = ToolKind.FUNCTION): ToolName {
  return { $typeName: 'tollgate.v1.ToolName', name, kind };
}

/** The members of a schema for answers. */
interface SchemaMembers {
  readonly name: string;
  readonly description?: MaybeSent<string>;
  readonly schema?: MaybeSent<JsonObject>;
  readonly strict?: MaybeSent<boolean>;
}

/** Returns the output format for an answer without a schema. */
export function plainFormat(type: 'text' | 'json_object'): OutputFormat {
  const kind = type === 'text' ? OutputFormatType.TEXT : OutputFormatType.JSON_OBJECT;
  return { $typeName: 'tollgate.v1.OutputFormat', type: kind, name: '', schemaJson: '' };
}

/** Returns the output format for an answer that follows a schema. */
export function schemaFormat({ name, description, schema, strict }: SchemaMembers): OutputFormat {
  return {
    $typeName: 'tollgate.v1.OutputFormat',
    type: OutputFormatType.JSON_SCHEMA,
    name,
    schemaJson: schema == null ? '' : JSON.stringify(schema),
    ...defined({ description: description ?? undefined, strict: strict ?? undefined }),
  };
}
