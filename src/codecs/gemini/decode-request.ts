import { Protocol } from '../../gen/tollgate/v1/content_pb.ts';
import {
  Delivery,
  Endpoint,
  type GenerateRequest,
  type OutputFormat,
  type ReasoningConfig,
  ThinkingMode,
  type Tool,
  type ToolChoice,
} from '../../gen/tollgate/v1/request_pb.ts';
import type { TierFields } from '../../generation/service-tier.ts';
import type { DecodedRequest, ReceivedRequest } from '../codec.ts';
import { makeRequest } from '../content.ts';
import { defined } from '../json.ts';
import * as decode from '../request.ts';
import { members, parseBody, UnknownMembers, UnknownValue } from '../schema.ts';
import { SentTexts } from '../sent-body.ts';
import { decodeServiceTier } from '../service-tier.ts';
import { toJsonSchema } from './client-schema.ts';
import { ContentsDecoder } from './decode-contents.ts';
import { forms, toNormalForm } from './normal-form.ts';
import {
  geminiCountSchema,
  generationConfigSchema,
  type GeminiClientTool,
  type GeminiRequest,
  geminiRequestSchema,
} from './request-schema.ts';

/** Decodes requests of Gemini's clients to the contract's `GenerateRequest`; the model is in the path. Source: docs/interfaces/gemini.md "Request". */

const known = new Set(Object.keys(geminiRequestSchema.shape));
const knownConfigMembers = new Set(['mediaResolution', ...Object.keys(generationConfigSchema.shape)]);
const knownThinkingMembers = members('includeThoughts', 'thinkingBudget', 'thinkingLevel');
const knownToolConfigMembers = members('functionCallingConfig');
const knownFunctionMembers = members('name', 'description', 'parameters', 'parametersJsonSchema');
const knownCallingMembers = members('mode', 'allowedFunctionNames');

type Config = NonNullable<GeminiRequest['generationConfig']>;

/** A request and what its path says. */
export interface ReceivedGemini extends ReceivedRequest {
  /** The model as the path names it. */
  readonly model: string;
  /** True for `:streamGenerateContent`. */
  readonly stream: boolean;
}

/** Decodes a request. Throws `validation_error` and `unsupported_parameter`. */
export function decodeRequest(received: ReceivedGemini): DecodedRequest {
  const body = parseBody(geminiRequestSchema, toNormalForm(received.body, forms.request));
  const thoughts = body.generationConfig?.thinkingConfig?.includeThoughts === true;
  return {
    request: requestFrom(body, received),
    stream: received.stream,
    includeUsage: true,
    ...(thoughts ? { showsThoughts: true } : {}),
  };
}

/** Decodes a request whose input is to be counted: contents, or a whole request. Throws `validation_error`. */
export function decodeCountRequest(received: ReceivedGemini): GenerateRequest {
  const normal = toNormalForm(received.body, forms.count);
  const { generateContentRequest: whole } = parseBody(geminiCountSchema, normal);
  return requestFrom(whole ?? parseBody(geminiRequestSchema, normal), received);
}

function requestFrom(body: GeminiRequest, received: ReceivedGemini): GenerateRequest {
  const unknown = new UnknownMembers(Protocol.GEMINI);
  unknown.collectFromBody(body, known);
  refuseElsewhere(body, unknown);
  const decoder = new ContentsDecoder(unknown, new SentTexts(received));
  if (body.systemInstruction != null) decoder.addSystem(body.systemInstruction);
  for (const [index, content] of body.contents.entries()) decoder.add(content, index);
  const config: Config = body.generationConfig ?? {};
  unknown.list(config, knownConfigMembers, 'generationConfig');
  const request = makeRequest({
    model: received.model,
    endpoint: Endpoint.GEMINI,
    delivery: received.stream ? Delivery.STREAMED : Delivery.WHOLE,
    items: decoder.end(),
    tools: (body.tools ?? []).flatMap((tool, index) => decodeTool(tool, unknown, `tools.${index}`)),
    stop: (config.stopSequences ?? []).filter(text => text !== ''),
    ...decodeTier(body),
    ...decodeSampling(config),
    ...decodeToolChoice(body, unknown),
    ...defined({
      maxOutputTokens: decode.clampToUint32(config.maxOutputTokens),
      candidates: config.candidateCount ?? undefined,
      reasoning: decodeReasoning(config, unknown),
      outputFormat: decodeFormat(config, unknown),
    }),
  });
  if (request.reasoning !== undefined) request.include.push('reasoning.encrypted_content');
  request.source = decode.sourceRequest(Protocol.GEMINI, { raw: received.raw, body, unknown });
  return request;
}

/** Lists what only Google's service can do: members that are refused for other providers, and those that are dropped with a warning. */
function refuseElsewhere(body: GeminiRequest, unknown: UnknownMembers): void {
  if (body.cachedContent != null && body.cachedContent !== '') {
    unknown.knownOrRefuse(new UnknownValue(body.cachedContent, []), 'cachedContent');
  }
  if (Array.isArray(body.safetySettings) && body.safetySettings.length > 0) unknown.paths.push('safetySettings');
  const modalities = body.generationConfig?.responseModalities ?? [];
  if (modalities.some(each => each.toUpperCase() !== 'TEXT')) {
    unknown.knownOrRefuse(new UnknownValue(modalities, ['TEXT']), 'generationConfig.responseModalities');
  }
}

function decodeTier({ serviceTier }: GeminiRequest): TierFields {
  const word = serviceTier?.toLowerCase() ?? '';
  return decodeServiceTier(word === '' || word === 'unspecified' ? undefined : word);
}

function decodeSampling(config: Config): ReturnType<typeof decode.sampling> {
  return decode.sampling({
    temperature: config.temperature,
    top_p: config.topP,
    top_k: config.topK,
    seed: config.seed,
    presence_penalty: config.presencePenalty,
    frequency_penalty: config.frequencyPenalty,
    logprobs: config.responseLogprobs,
    top_logprobs: config.responseLogprobs === true ? config.logprobs : undefined,
  });
}

const levels = ['minimal', 'low', 'medium', 'high'] as const;

/** Returns the reasoning settings; undefined if nothing was requested. A budget of -1 says nothing: the model decides. */
function decodeReasoning(config: Config, unknown: UnknownMembers): ReasoningConfig | undefined {
  const { thinkingConfig: thinking, maxOutputTokens } = config;
  if (thinking == null) return undefined;
  unknown.list(thinking, knownThinkingMembers, 'generationConfig.thinkingConfig');
  const { includeThoughts, thinkingBudget } = thinking;
  if (thinkingBudget === 0) return decode.reasoningConfig(undefined, ThinkingMode.DISABLED);
  const level = (thinking.thinkingLevel ?? '').toLowerCase();
  const effort = levels.find(name => name === level);
  if (effort === undefined && level !== '' && level !== 'thinking_level_unspecified') {
    unknown.paths.push('generationConfig.thinkingConfig.thinkingLevel');
  }
  const budget = thinkingBudget == null || thinkingBudget < 0 ? undefined : decode.clampToUint32(thinkingBudget);
  // Google counts thoughts in the output limit, and accepts a budget above it.
  const bounded = budget === undefined ? undefined : Math.min(budget, (maxOutputTokens ?? Infinity) - 1);
  const hasBudget = bounded !== undefined && bounded > 0;
  if (!hasBudget && effort === undefined && includeThoughts !== true) return undefined;
  const mode = hasBudget ? ThinkingMode.ENABLED : ThinkingMode.UNSPECIFIED;
  return {
    ...decode.reasoningConfig(effort, mode),
    ...(hasBudget ? { budgetTokens: bounded } : {}),
    ...(includeThoughts === true ? { summary: 'auto' } : {}),
  };
}

function decodeFormat(config: Config, unknown: UnknownMembers): OutputFormat | undefined {
  const { responseMimeType: type, responseSchema, responseJsonSchema } = config;
  const isJson = type === 'application/json';
  if (type != null && type !== '' && type !== 'text/plain' && !isJson) {
    unknown.paths.push('generationConfig.responseMimeType');
    return undefined;
  }
  const schema = responseJsonSchema ?? (responseSchema == null ? undefined : toJsonSchema(responseSchema));
  // Other protocols require a name for a schema.
  if (schema !== undefined) return decode.schemaFormat({ name: 'response', schema });
  return isJson ? decode.plainFormat('json_object') : undefined;
}

function decodeTool(tool: GeminiClientTool, unknown: UnknownMembers, path: string): Tool[] {
  const tools = (tool.functionDeclarations ?? []).map((declared, index) => {
    const { name, description, parameters, parametersJsonSchema } = declared;
    const schema = parametersJsonSchema ?? (parameters == null ? undefined : toJsonSchema(parameters));
    const extra = unknown.collect(declared, knownFunctionMembers, `${path}.functionDeclarations.${index}`);
    return decode.makeTool(decode.functionTool({ name, description, parameters: schema }), defined({ extra }));
  });
  const hosted = Object.entries(tool).filter(([name, value]) => name !== 'functionDeclarations' && value != null);
  return [...tools, ...hosted.map(([type, value]) => decode.makeTool(hostedTool(type, value), {}))];
}

function hostedTool(type: string, value: unknown): Tool['tool'] {
  const json = JSON.stringify({ [type]: value });
  return { case: 'hosted', value: { $typeName: 'tollgate.v1.HostedTool', protocol: Protocol.GEMINI, type, json } };
}

function decodeToolChoice({ toolConfig }: GeminiRequest, unknown: UnknownMembers): { toolChoice?: ToolChoice } {
  unknown.list(toolConfig, knownToolConfigMembers, 'toolConfig');
  const calling = toolConfig?.functionCallingConfig;
  if (calling == null) return {};
  unknown.list(calling, knownCallingMembers, 'toolConfig.functionCallingConfig');
  const mode = decodeMode(calling.mode ?? '', unknown);
  const named = (calling.allowedFunctionNames ?? []).map(name => decode.toolName(name));
  if (mode === 'NONE') return { toolChoice: decode.toolChoice('none') };
  const isForced = mode === 'ANY';
  if (named.length === 0) return isForced ? { toolChoice: decode.toolChoice('required') } : {};
  if (isForced && named.length === 1) return { toolChoice: decode.toolChoice('named', named) };
  return { toolChoice: decode.toolChoice(isForced ? 'required' : 'auto', named, true) };
}

const callingModes = ['MODE_UNSPECIFIED', 'AUTO', 'ANY', 'NONE', 'VALIDATED'] as const;

/** Returns the calling mode; Google's services take its words in small letters too. An unknown one is refused for providers of other protocols. */
function decodeMode(sent: string, unknown: UnknownMembers): (typeof callingModes)[number] {
  const mode = callingModes.find(name => name === sent.toUpperCase());
  if (mode === undefined && sent !== '') {
    unknown.knownOrRefuse(new UnknownValue(sent, callingModes), 'toolConfig.functionCallingConfig.mode');
  }
  return mode ?? 'AUTO';
}
