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
  [Endpoint.RESPONSES]: { ...canonical, items: 'input', reasoning: 'reasoning.effort', output_format: 'text.format' },
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
  return `${fieldName(endpoint, 'items')}.reasoning`;
}

/** Returns the name of a field in the client's interface, for errors. */
export function fieldName(endpoint: Endpoint, field: RequestField): string {
  return (byEndpoint[endpoint] ?? canonical)[field];
}
