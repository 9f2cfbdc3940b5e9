/**
 * Reads requests of generateContent according to the public schema (types of `@google/genai`), and converts them to Chat requests for a second gateway. Members that are not in the schema are refused, as
 * Google does.
 */
import type {
  Content,
  FunctionCallingConfig,
  FunctionDeclaration,
  GenerationConfig,
  Part,
  ThinkingConfig,
} from '@google/genai';

type Json = Record<string, unknown>;

/** The body of a `generateContent` request. */
export interface GenerateContentBody {
  readonly contents?: Content[];
  readonly systemInstruction?: Content;
  readonly tools?: { functionDeclarations?: FunctionDeclaration[] }[];
  readonly toolConfig?: { functionCallingConfig?: FunctionCallingConfig };
  readonly generationConfig?: GenerationConfig & { thinkingConfig?: ThinkingConfig };
  readonly serviceTier?: string;
}

/** Thrown for a request that Google would answer with 400. */
export class InvalidArgument extends Error {}

const members: Readonly<Record<string, readonly string[]>> = {
  '': ['contents', 'systemInstruction', 'tools', 'toolConfig', 'generationConfig', 'serviceTier'],
  content: ['role', 'parts'],
  part: ['text', 'thought', 'thoughtSignature', 'inlineData', 'fileData', 'functionCall', 'functionResponse'],
  functionCall: ['id', 'name', 'args'],
  functionResponse: ['id', 'name', 'response', 'parts'],
  declaration: ['name', 'description', 'parameters', 'parametersJsonSchema'],
  generationConfig: [
    'temperature',
    'topP',
    'topK',
    'candidateCount',
    'maxOutputTokens',
    'stopSequences',
    'responseLogprobs',
    'logprobs',
    'presencePenalty',
    'frequencyPenalty',
    'seed',
    'responseMimeType',
    'responseJsonSchema',
    'thinkingConfig',
  ],
  thinkingConfig: ['includeThoughts', 'thinkingBudget', 'thinkingLevel'],
};

function refuseUnknown(value: object, kind: string): void {
  for (const name of Object.keys(value)) {
    if (!members[kind]?.includes(name))
      throw new InvalidArgument(`Unknown name "${name}" at '${kind}': Cannot find field.`);
  }
}

/** Returns the signature that the fake Google server sends with a call. It is computed from the call, so the server can check signatures without storing them. */
export function makeSignature(name: string, args: unknown): string {
  return Buffer.from(`signed:${name}:${JSON.stringify(args)}`).toString('base64');
}

/** The signature that the fake Google server sends at the end of a text. */
export const textSignature = makeSignature('text', {});

/** Google accepts this value in place of any signature. */
const signatureThatSkipsTheCheck = 'skip_thought_signature_validator';

function checkSignature({ functionCall, thoughtSignature: signature }: Part, isFirst: boolean, strict: boolean): void {
  if (functionCall === undefined) return;
  if (strict && isFirst && signature === undefined) {
    throw new InvalidArgument('Function call is missing a thought_signature in functionCall parts.');
  }
  const own = makeSignature(functionCall.name ?? '', functionCall.args ?? {});
  if (signature !== undefined && signature !== signatureThatSkipsTheCheck && signature !== own) {
    throw new InvalidArgument('Corrupted thought signature.');
  }
}

/** Converts contents to Chat messages. Call ids are made from positions, because the protocol identifies calls by name and order. */
class Messages {
  readonly list: Json[] = [];
  #open: { id: string; name: string }[] = [];
  #calls = 0;
  readonly #strict: boolean;

  constructor(strict: boolean) {
    this.#strict = strict;
  }

  add(content: Content): void {
    refuseUnknown(content, 'content');
    const parts = content.parts ?? [];
    if (parts.length === 0) throw new InvalidArgument('contents.parts must not be empty.');
    for (const part of parts) refuseUnknown(part, 'part');
    const results = parts.filter(part => part.functionResponse !== undefined);
    if (this.#open.length > 0 && results.length !== this.#open.length) {
      throw new InvalidArgument(
        'Please ensure that the number of function response parts is equal to the number of function call parts of the function call turn.',
      );
    }
    if (content.role === 'model') this.#model(parts);
    else if (content.role === 'user') this.#user(parts, results);
    else throw new InvalidArgument('Please use a valid role: user, model.');
  }

  #model(parts: readonly Part[]): void {
    let isFirst = true;
    const calls = parts.flatMap(part => {
      if (part.functionCall === undefined) return [];
      refuseUnknown(part.functionCall, 'functionCall');
      checkSignature(part, isFirst, this.#strict);
      isFirst = false;
      const { name = '', args = {} } = part.functionCall;
      const id = `call_${(this.#calls += 1)}`;
      this.#open.push({ id, name });
      return [{ id, type: 'function', function: { name, arguments: JSON.stringify(args) } }];
    });
    const misplaced = parts.find(
      part => part.text !== undefined && ![undefined, textSignature].includes(part.thoughtSignature),
    );
    if (misplaced !== undefined) throw new InvalidArgument('Corrupted thought signature.');
    const text = parts.map(part => (part.thought === true ? '' : (part.text ?? ''))).join('');
    this.list.push({
      role: 'assistant',
      content: text === '' && calls.length > 0 ? null : text,
      ...(calls.length === 0 ? {} : { tool_calls: calls }),
    });
  }

  #user(parts: readonly Part[], results: readonly Part[]): void {
    for (const { functionResponse: result } of results) {
      if (result === undefined) continue;
      refuseUnknown(result, 'functionResponse');
      const call = this.#open.shift();
      if (call?.name !== result.name) throw new InvalidArgument(`There is no call of ${result.name ?? ''}.`);
      const { output, ...rest } = result.response ?? {};
      const content =
        typeof output === 'string' && Object.keys(rest).length === 0 ? output : JSON.stringify(result.response);
      this.list.push({ role: 'tool', tool_call_id: call?.id, content });
    }
    const otherParts = parts.filter(part => part.functionResponse === undefined).map(toPart);
    if (otherParts.length > 0) this.list.push({ role: 'user', content: otherParts });
  }
}

function toPart({ text, inlineData, fileData }: Part): Json {
  if (text !== undefined) {
    if (text === '') throw new InvalidArgument('A part must have one initialized field.');
    return { type: 'text', text };
  }
  const { mimeType = '', data = '' } = inlineData ?? {};
  if (fileData !== undefined) return { type: 'image_url', image_url: { url: fileData.fileUri } };
  if (mimeType.startsWith('image/'))
    return { type: 'image_url', image_url: { url: `data:${mimeType};base64,${data}` } };
  return { type: 'file', file: { file_data: `data:${mimeType};base64,${data}`, filename: 'file' } };
}

/** Returns the equivalent Chat request. `strict`: the first call of each turn of the model must have a signature. Throws `InvalidArgument` for an invalid request. */
export function toChatRequest(body: GenerateContentBody, model: string, strict: boolean): Json {
  refuseUnknown(body, '');
  const messages = new Messages(strict);
  const system = (body.systemInstruction?.parts ?? []).map(({ text = '' }) => text).join('\n');
  if (system !== '') messages.list.push({ role: 'system', content: system });
  for (const content of body.contents ?? []) messages.add(content);
  if ((body.contents ?? []).length === 0) throw new InvalidArgument('contents is not specified.');
  return {
    model,
    messages: messages.list,
    ...toTools(body),
    ...toSettings(body.generationConfig ?? {}),
    ...(body.serviceTier === undefined ? {} : { service_tier: body.serviceTier }),
    stream: true,
    stream_options: { include_usage: true },
  };
}

function toTools({ tools = [], toolConfig }: GenerateContentBody): Json {
  const declarations = tools.flatMap(({ functionDeclarations = [] }) => functionDeclarations);
  if (declarations.length === 0) return {};
  for (const each of declarations) refuseUnknown(each, 'declaration');
  const { mode = 'AUTO', allowedFunctionNames } = toolConfig?.functionCallingConfig ?? {};
  const [only] = allowedFunctionNames ?? [];
  const named = { type: 'function', function: { name: only } };
  const choices: Record<string, unknown> = { AUTO: 'auto', NONE: 'none', ANY: only === undefined ? 'required' : named };
  return {
    tools: declarations.map(({ name, description, parameters, parametersJsonSchema = lowerTypes(parameters) }) => ({
      type: 'function',
      function: {
        name,
        ...(description === undefined ? {} : { description }),
        ...(parametersJsonSchema === undefined ? {} : { parameters: parametersJsonSchema }),
      },
    })),
    tool_choice: choices[mode],
  };
}

function toSettings(config: NonNullable<GenerateContentBody['generationConfig']>): Json {
  refuseUnknown(config, 'generationConfig');
  const { thinkingConfig, responseMimeType, responseJsonSchema } = config;
  const settings: Json = {
    temperature: config.temperature,
    top_p: config.topP,
    n: config.candidateCount,
    max_completion_tokens: config.maxOutputTokens,
    stop: config.stopSequences?.slice(0, 4),
    logprobs: config.responseLogprobs,
    top_logprobs: config.logprobs,
    presence_penalty: config.presencePenalty,
    frequency_penalty: config.frequencyPenalty,
    seed: config.seed,
  };
  if (thinkingConfig !== undefined) {
    refuseUnknown(thinkingConfig, 'thinkingConfig');
    settings['reasoning_effort'] = toEffort(thinkingConfig);
  }
  if (responseJsonSchema !== undefined) {
    settings['response_format'] = { type: 'json_schema', json_schema: { name: 'answer', schema: responseJsonSchema } };
  } else if (responseMimeType === 'application/json') settings['response_format'] = { type: 'json_object' };
  return Object.fromEntries(Object.entries(settings).filter(([, value]) => value !== undefined));
}

function toEffort({ thinkingBudget, thinkingLevel }: ThinkingConfig): string {
  if (thinkingLevel !== undefined) return thinkingLevel.toLowerCase();
  if (thinkingBudget === 0) return 'none';
  const budget = thinkingBudget ?? -1;
  if (budget < 0) return 'medium';
  return budget < 2_560 ? 'low' : budget < 10_240 ? 'medium' : 'high';
}

/** Returns a schema of Google's form, whose types are in capitals, as JSON Schema. */
function lowerTypes(schema: unknown): unknown {
  return schema === undefined
    ? undefined
    : JSON.parse(JSON.stringify(schema), (name, value: unknown) =>
        name === 'type' && typeof value === 'string' ? value.toLowerCase() : value,
      );
}
