/**
 * Reads a server's own description of a model, in the formats of llama.cpp, Ollama, vLLM, LM Studio and another
 * Tollgate. Nothing is derived from a model's name, except that it embeds.
 */

/** A JSON object of a server's. */
export type JsonMembers = Readonly<Record<string, unknown>>;

/** Everything that one server reports of one model: see `src/upstreams/server-models.ts` for the origin of each part. */
export interface ModelDescription {
  readonly listed: JsonMembers;
  readonly entry?: JsonMembers;
  readonly props?: JsonMembers;
  readonly show?: JsonMembers;
  readonly state?: JsonMembers;
}

/** The features of a model. */
export interface ModelFacts {
  /** It generates text. */
  readonly isChat: boolean;
  readonly contextLength: number | undefined;
  readonly vision: boolean;
  readonly functionCall: boolean;
  readonly reasoning: boolean;
  /** Seconds since 1970 UTC; undefined: unknown. */
  readonly createdAt: number | undefined;
}

const tokensMax = 4_294_967_295;
/** Servers that list models without their purpose list these too. */
const embeddingName = /(^|[^a-z])(text-)?embed(ding)?s?([^a-z]|$)|(^|[^a-z])(bge|gte|e5|minilm)-|rerank/i;

/** Reads the reported features; by default a model generates text with tools, without images and without a switch for reasoning. */
export function readFacts(description: ModelDescription): ModelFacts {
  const { listed } = description;
  const createdAt = listed['created'];
  return {
    ...readCapabilities(description),
    contextLength: readContext(description),
    createdAt: typeof createdAt === 'number' && createdAt > 0 ? Math.floor(createdAt) : undefined,
  };
}

type Capabilities = Pick<ModelFacts, 'isChat' | 'vision' | 'functionCall' | 'reasoning'>;

function readCapabilities({ listed, entry, props, show, state }: ModelDescription): Capabilities {
  const own = objectIn(listed['capabilities']);
  if (own !== undefined) return ofTollgate(own);
  const shown = textsIn(show?.['capabilities']);
  if (shown !== undefined) return ofOllama(shown);
  const type = state?.['type'];
  if (typeof type === 'string') return ofStudio(type, textsIn(state?.['capabilities']));
  const named = textsIn(entry?.['capabilities']) ?? textsIn(listed['capabilities']);
  const template = objectIn(props?.['chat_template_caps']);
  return {
    isChat: !embeddingName.test(textIn(listed['id']) ?? '') && named?.includes('completion') !== false,
    vision: named?.includes('multimodal') === true || objectIn(props?.['modalities'])?.['vision'] === true,
    functionCall:
      template === undefined || template['supports_tools'] === true || template['supports_tool_calls'] === true,
    reasoning:
      template?.['supports_reasoning_effort'] === true || canThink.test(textIn(props?.['chat_template']) ?? ''),
  };
}

/** Words in a chat template that show reasoning, or a switch for it. */
const canThink = /enable_thinking|reasoning_effort|<think>/;

function ofTollgate(capabilities: JsonMembers): Capabilities {
  const can = (what: string): boolean => capabilities[what] === true;
  return { isChat: true, vision: can('vision'), functionCall: can('function_call'), reasoning: can('reasoning') };
}

function ofOllama(capabilities: readonly string[]): Capabilities {
  const can = (what: string): boolean => capabilities.includes(what);
  return { isChat: can('completion'), vision: can('vision'), functionCall: can('tools'), reasoning: can('thinking') };
}

function ofStudio(type: string, capabilities: readonly string[] | undefined): Capabilities {
  return {
    isChat: type !== 'embeddings',
    vision: type === 'vlm' || capabilities?.includes('vision') === true,
    functionCall: capabilities === undefined || capabilities.includes('tool_use'),
    reasoning: capabilities?.includes('reasoning') === true,
  };
}

/**
 * Returns the context of a request, if it is reported: the setting that the server was started with comes before the
 * model's trained context, which only Ollama and LM Studio go up to by themselves.
 */
function readContext({ listed, props, show, state }: ModelDescription): number | undefined {
  const settings = objectIn(props?.['default_generation_settings']);
  const info = objectIn(show?.['model_info']);
  const trained = info?.[`${textIn(info['general.architecture']) ?? ''}.context_length`];
  const description = [
    listed['context_length'],
    listed['max_model_len'],
    settings?.['n_ctx'],
    objectIn(listed['meta'])?.['n_ctx'],
    Number(/^num_ctx\s+(\d+)\s*$/m.exec(textIn(show?.['parameters']) ?? '')?.[1]),
    state?.['context_length'],
    state?.['loaded_context_length'],
    state?.['max_context_length'],
    trained,
  ];
  return description.map(countIn).find(count => count !== undefined);
}

/** Returns a count of tokens; undefined if the value is not one. */
export function countIn(value: unknown): number | undefined {
  return typeof value === 'number' && Number.isInteger(value) && value > 0 && value <= tokensMax ? value : undefined;
}

/** Returns a non-empty string; undefined if the value is not one. */
export function textIn(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined;
}

/** Returns an object; undefined if the value is not one. */
export function objectIn(value: unknown): JsonMembers | undefined {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as JsonMembers) : undefined;
}

function textsIn(value: unknown): readonly string[] | undefined {
  return Array.isArray(value) ? value.filter(each => typeof each === 'string') : undefined;
}
