import { Protocol } from '../../gen/tollgate/v1/content_pb.ts';
import { type GenerateRequest, OutputFormatType, type Tool, ToolChoiceMode } from '../../gen/tollgate/v1/request_pb.ts';
import { fieldName } from '../../generation/check/field-names.ts';
import type { EncodedRequest, EncodeInput, JsonObject } from '../codec.ts';
import { Drops, dropUnknown, isPrefill, unsupported, unsupportedContent, unsupportedTool } from '../drops.ts';
import { dropGrammar, freeText, clientToolName } from '../free-form.ts';
import { defined, fieldJson } from '../json.ts';
import { tierName } from '../service-tier.ts';
import { encodeContents } from './encode-contents.ts';
import { type ModelTraits, findTraits } from './model-traits.ts';
import { toDialect } from './schema-dialect.ts';
import { thinkingConfig } from './thinking.ts';
import { patchedRequest, stopsMax } from './patch-request.ts';
import type { GeminiPart } from './wire.ts';

/**
 * Encodes the body for a Gemini upstream; the model is in the path. The same input gives the same bytes. Source: the public schema
 * of generateContent, docs/providers.md "The Gemini protocol"; docs/interfaces/README.md "Translation", "Refused,
 * listed or dropped".
 * Throws `unsupported_parameter`.
 */
export function encodeRequest(input: EncodeInput): EncodedRequest {
  const { request, model, maxOutputTokens, provider } = input;
  const drops = new Drops();
  const { source } = request;
  if (source?.protocol === Protocol.GEMINI) {
    const sent = patchedRequest(input, source, drops);
    return { ...sent, dropped: drops.list() };
  }
  refuse(request);
  const traits = findTraits(model);
  const { system, contents } = encodeContents(request, { traits, provider }, drops);
  const format = encodeFormat(request, traits, drops);
  const instructed = [...system, ...format.instructions];
  const body: JsonObject = {};
  if (instructed.length > 0) body['systemInstruction'] = { parts: instructed };
  body['contents'] = contents;
  Object.assign(body, encodeTools(request, drops));
  const config = {
    ...samplingConfig(request, drops),
    ...(maxOutputTokens === undefined ? {} : { maxOutputTokens }),
    // The gateway itself also matches all stop sequences, those beyond the fifth included.
    ...(request.stop.length === 0 ? {} : { stopSequences: request.stop.slice(0, stopsMax) }),
    ...((request.candidates ?? 1) > 1 ? { candidateCount: request.candidates ?? 1 } : {}),
    ...format.config,
    ...thinkingConfig(request, { traits, limit: maxOutputTokens }, drops),
  };
  if (Object.keys(config).length > 0) body['generationConfig'] = config;
  const tier = tierName(request);
  if (tier !== undefined) body['serviceTier'] = tier;
  dropUnknown(request.source, drops);
  return { body, dropped: drops.list() };
}

/** Throws for fields whose loss would change the client's result. */
function refuse(request: GenerateRequest): void {
  const { sampling } = request;
  if (isPrefill(request.items)) throw unsupportedContent(request, 'a last message of the assistant');
  if (sampling !== undefined && Object.keys(sampling.logitBias).length > 0) {
    throw unsupported('logit_bias', 'biased tokens');
  }
}

function samplingConfig({ sampling, include }: GenerateRequest, drops: Drops): JsonObject {
  const wantsLogprobs = sampling?.logprobs === true || include.includes('message.output_text.logprobs');
  const seed = sampling?.seed === undefined ? undefined : Number(sampling.seed);
  const fits = seed === undefined || Math.abs(seed) < 2 ** 31;
  if (!fits) drops.add('seed');
  return defined({
    temperature: sampling?.temperature,
    topP: sampling?.topP,
    topK: sampling?.topK,
    frequencyPenalty: sampling?.frequencyPenalty,
    presencePenalty: sampling?.presencePenalty,
    seed: fits ? seed : undefined,
    responseLogprobs: wantsLogprobs ? true : undefined,
    logprobs: wantsLogprobs ? sampling?.topLogprobs : undefined,
  });
}

/** The encoded answer format: settings, and an instruction in words if the model does not accept a format together with tools. */
interface EncodedFormat {
  readonly config: JsonObject;
  readonly instructions: GeminiPart[];
}

function encodeFormat(request: GenerateRequest, traits: ModelTraits, drops: Drops): EncodedFormat {
  const { outputFormat, tools, endpoint } = request;
  const isSchema = outputFormat?.type === OutputFormatType.JSON_SCHEMA;
  if (outputFormat === undefined || !(isSchema || outputFormat.type === OutputFormatType.JSON_OBJECT)) {
    return { config: {}, instructions: [] };
  }
  const field = fieldName(endpoint, 'output_format');
  const schema = isSchema ? (fieldJson(outputFormat.schemaJson) ?? {}) : undefined;
  if (tools.length > 0 && !traits.schemaWithTools) {
    drops.add(field);
    const instruction = 'When you do not call a tool, answer with one JSON object and nothing else.';
    const text =
      schema === undefined ? instruction : `${instruction} It follows this JSON Schema: ${JSON.stringify(schema)}`;
    return { config: {}, instructions: [{ text }] };
  }
  const config: JsonObject = { responseMimeType: 'application/json' };
  if (schema !== undefined) {
    const { schema: translated, lost } = toDialect(schema);
    for (const keyword of lost) drops.add(`${field}.${keyword}`);
    config['responseJsonSchema'] = translated;
  }
  return { config, instructions: [] };
}

const callModes: Readonly<Partial<Record<ToolChoiceMode, string>>> = {
  [ToolChoiceMode.NONE]: 'NONE',
  [ToolChoiceMode.REQUIRED]: 'ANY',
  [ToolChoiceMode.NAMED]: 'ANY',
};

function encodeTools(request: GenerateRequest, drops: Drops): JsonObject {
  const { tools, toolChoice } = request;
  if (tools.length === 0) return {};
  const named = toolChoice?.tools.map(({ name }) => name) ?? [];
  // The protocol restricts the tools only for a forced call. Otherwise the tools that may not be called are not sent (translation case CH-04).
  const offered = toolChoice?.restricted === true ? tools.filter(tool => named.includes(clientToolName(tool))) : tools;
  const functionDeclarations = offered.map(tool => encodeTool(tool, `tools.${tools.indexOf(tool)}`, drops));
  const mode = callModes[toolChoice?.mode ?? ToolChoiceMode.UNSPECIFIED];
  if (mode === undefined) return { tools: [{ functionDeclarations }] };
  const allowed = toolChoice?.mode === ToolChoiceMode.NAMED ? { allowedFunctionNames: named } : {};
  return {
    tools: [{ functionDeclarations }],
    toolConfig: { functionCallingConfig: { mode, ...allowed } },
  };
}

/** The tool names that Gemini accepts. */
const namePattern = /^[a-zA-Z_][a-zA-Z0-9_.:-]{0,127}$/;

function encodeTool({ tool }: Tool, path: string, drops: Drops): JsonObject {
  if (tool.case === 'hosted' || tool.case === undefined) throw unsupportedTool({ tool }, path);
  const { name, description } = tool.value;
  if (!namePattern.test(name)) throw unsupported(`${path}.name`, 'a tool name that begins with a digit or a dash');
  const body: JsonObject = { name, ...(description === undefined ? {} : { description }) };
  if (tool.case === 'custom') {
    dropGrammar(tool.value, path, drops);
    return { ...body, parametersJsonSchema: freeText };
  }
  const { parametersJson, strict } = tool.value;
  if (strict === true) drops.add(`${path}.strict`);
  const parameters = fieldJson(parametersJson);
  if (parameters === undefined) return body;
  // Unlike the schema of an answer, parameters may use all of JSON Schema, but must be an object (translation case CH-10).
  const isTyped = parameters['type'] !== undefined;
  return { ...body, parametersJsonSchema: isTyped ? parameters : { type: 'object', ...parameters } };
}
