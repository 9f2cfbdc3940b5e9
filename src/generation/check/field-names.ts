import { Endpoint } from '../../gen/tollgate/v1/request_pb.ts';

/** The fields of a request that a check can name. */
export type RequestField =
  | 'items'
  | 'tools'
  | 'tool_choice'
  | 'reasoning'
  | 'max_output_tokens'
  | 'service_tier'
  | 'output_format'
  | 'candidates';

type Names = Readonly<Record<RequestField, string>>;

const canonical: Names = {
  items: 'items',
  tools: 'tools',
  tool_choice: 'tool_choice',
  reasoning: 'reasoning',
  max_output_tokens: 'max_output_tokens',
  service_tier: 'service_tier',
  output_format: 'output_format',
  candidates: 'candidates',
};

const byEndpoint: Partial<Record<Endpoint, Names>> = {
  [Endpoint.CHAT_COMPLETIONS]: {
    ...canonical,
    items: 'messages',
    reasoning: 'reasoning_effort',
    max_output_tokens: 'max_completion_tokens',
    output_format: 'response_format',
    candidates: 'n',
  },
  [Endpoint.COMPLETIONS]: { ...canonical, items: 'prompt', max_output_tokens: 'max_tokens', candidates: 'n' },
  [Endpoint.RESPONSES]: {
    ...canonical,
    items: 'input',
    reasoning: 'reasoning.effort',
    output_format: 'text.format',
  },
  [Endpoint.MESSAGES]: {
    ...canonical,
    items: 'messages',
    reasoning: 'thinking',
    max_output_tokens: 'max_tokens',
    output_format: 'output_config.format',
  },
  [Endpoint.GEMINI]: {
    items: 'contents',
    tools: 'tools',
    tool_choice: 'toolConfig.functionCallingConfig',
    reasoning: 'generationConfig.thinkingConfig',
    max_output_tokens: 'generationConfig.maxOutputTokens',
    service_tier: 'serviceTier',
    output_format: 'generationConfig.responseJsonSchema',
    candidates: 'generationConfig.candidateCount',
  },
};

/** Returns the name of reasoning in the conversation, for warnings: it is no setting of the request. */
export function reasoningName(endpoint: Endpoint): string {
  return `${fieldName(endpoint, 'items')}.${endpoint === Endpoint.GEMINI ? 'parts.thoughtSignature' : 'reasoning'}`;
}

/** Returns the name of a field in the client's interface, for errors. */
export function fieldName(endpoint: Endpoint, field: RequestField): string {
  return (byEndpoint[endpoint] ?? canonical)[field];
}

/** Gemini's names of members that have one name in all other interfaces. */
const geminiNames: Readonly<Record<string, string>> = {
  temperature: 'generationConfig.temperature',
  top_p: 'generationConfig.topP',
  top_k: 'generationConfig.topK',
  seed: 'generationConfig.seed',
  presence_penalty: 'generationConfig.presencePenalty',
  frequency_penalty: 'generationConfig.frequencyPenalty',
  logprobs: 'generationConfig.responseLogprobs',
  top_logprobs: 'generationConfig.logprobs',
  stop: 'generationConfig.stopSequences',
  is_error: 'contents.parts.functionResponse.response',
};

/** Returns the name of a member in the client's interface, if it has another one there, for warnings. */
export function clientName(endpoint: Endpoint, name: string): string {
  return (endpoint === Endpoint.GEMINI ? geminiNames[name] : undefined) ?? name;
}
