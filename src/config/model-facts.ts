/**
 * Reads a server's own description of a model, in the formats of llama.cpp, Ollama, vLLM, LM Studio and another
 * Tollgate. The model's name is used only to recognise embedding models.
 */

/** A JSON object from a server. */
export type JsonMembers = Readonly<Record<string, unknown>>;

/** Everything that a server reports about a model. `src/upstreams/server-models.ts` shows where each part comes from. */
export interface ModelDescription {
  readonly listed: JsonMembers;
  readonly entry?: JsonMembers;
  readonly props?: JsonMembers;
  readonly show?: JsonMembers;
  readonly state?: JsonMembers;
}

/** The features of a model. */
export interface ModelFacts {
  /** True if the model generates text. */
  readonly isChat: boolean;
  readonly contextLength: number | undefined;
  readonly vision: boolean;
  readonly functionCall: boolean;
  readonly reasoning: boolean;
  /** Seconds since 1970 UTC; undefined: unknown. */
  readonly createdAt: number | undefined;
}

const tokensMax = 4_294_967_295;
/** Matches names of embedding models, which some servers list without saying what they are. */
const embeddingName = /(^|[^a-z])(text-)?embed(ding)?s?([^a-z]|$)|(^|[^a-z])(bge|gte|e5|minilm)-|rerank/i;

/** Reads the features that a server reports. If nothing is reported, the model generates text and has tools, but no images and no switch for reasoning. */
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

/** Matches words in a chat template that belong to reasoning or a switch for it. */
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
 * Returns the context length if it is reported. The length with which the server was started takes precedence over the
 * model's trained length, which only Ollama and LM Studio use by themselves.
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
