/** What a server that was asked says of a model, in the words of llama.cpp, Ollama, vLLM, LM Studio and another Tollgate. Nothing is assumed from a model's name but that it embeds. */

/** A JSON object of a server's. */
export type Said = Readonly<Record<string, unknown>>;

/** All that one server says of one model: `src/upstreams/asked-server.ts` says where each part comes from. */
export interface SaidOfModel {
  readonly listed: Said;
  readonly entry?: Said;
  readonly props?: Said;
  readonly show?: Said;
  readonly state?: Said;
}

/** What a model can do. */
export interface AskedFacts {
  /** It answers text. */
  readonly isChat: boolean;
  readonly contextLength: number | undefined;
  readonly vision: boolean;
  readonly functionCall: boolean;
  readonly reasoning: boolean;
  /** Seconds since 1970 UTC; undefined: not said. */
  readonly createdAt: number | undefined;
}

const tokensMax = 4_294_967_295;
/** Servers that list what they have without saying what it is for list these too. */
const embeddingName = /(^|[^a-z])(text-)?embed(ding)?s?([^a-z]|$)|(^|[^a-z])(bge|gte|e5|minilm)-|rerank/i;

/** Returns what is said; what is not counts as text with tools, without images and without a switch for reasoning. */
export function readFacts(said: SaidOfModel): AskedFacts {
  const { listed } = said;
  const createdAt = listed['created'];
  return {
    ...readCapabilities(said),
    contextLength: readContext(said),
    createdAt: typeof createdAt === 'number' && createdAt > 0 ? Math.floor(createdAt) : undefined,
  };
}

type Capabilities = Pick<AskedFacts, 'isChat' | 'vision' | 'functionCall' | 'reasoning'>;

function readCapabilities({ listed, entry, props, show, state }: SaidOfModel): Capabilities {
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

/** Words of a chat template that thinks, or can be told to. */
const canThink = /enable_thinking|reasoning_effort|<think>/;

function ofTollgate(capabilities: Said): Capabilities {
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
 * The context that a request has, as far as it is said: what the server was started with before what the model was trained for, which only Ollama and LM Studio go up to by
 * themselves.
 */
function readContext({ listed, props, show, state }: SaidOfModel): number | undefined {
  const settings = objectIn(props?.['default_generation_settings']);
  const info = objectIn(show?.['model_info']);
  const trained = info?.[`${textIn(info['general.architecture']) ?? ''}.context_length`];
  const said = [
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
  return said.map(countIn).find(count => count !== undefined);
}

/** Returns a count of tokens; undefined if the value is none. */
export function countIn(value: unknown): number | undefined {
  return typeof value === 'number' && Number.isInteger(value) && value > 0 && value <= tokensMax ? value : undefined;
}

/** Returns a text that is not empty; undefined if the value is none. */
export function textIn(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined;
}

/** Returns an object; undefined if the value is none. */
export function objectIn(value: unknown): Said | undefined {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Said) : undefined;
}

function textsIn(value: unknown): readonly string[] | undefined {
  return Array.isArray(value) ? value.filter(each => typeof each === 'string') : undefined;
}
