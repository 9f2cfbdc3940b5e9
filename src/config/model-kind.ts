import type { EndpointPath, ProtocolName } from './settings.ts';

/** The kind of a model, by its output. Each model has one kind, because prices and routes differ between kinds. */
export type ModelKind = 'text' | 'image' | 'embedding' | 'rerank';

/** The prices in the file that depend on a model's kind. */
const priceNames = ['input', 'output', 'image', 'image_tokens', 'search', 'caching'] as const;
type PriceName = (typeof priceNames)[number];
/** The prices that can be required for a model. */
type RequiredPrice = Exclude<PriceName, 'caching'>;

/** The settings that models of a kind may have. */
interface KindRules {
  /** The name of the kind, for people. */
  readonly name: string;
  /** The prices that a model must have, as alternatives. The first alternative is used for free models. */
  readonly needed: readonly [readonly RequiredPrice[], ...(readonly RequiredPrice[])[]];
  /** The prices that a model can have besides. It can't have any others. */
  readonly optional: readonly PriceName[];
}

/** The kind of the models that list a path. */
const kinds: Readonly<Record<EndpointPath, ModelKind>> = {
  '/v1/chat/completions': 'text',
  '/v1/responses': 'text',
  '/v1/messages': 'text',
  '/v1/images/generations': 'image',
  '/v1/images/edits': 'image',
  '/v1/embeddings': 'embedding',
  '/v1/rerank': 'rerank',
  '/v1/completions': 'text',
  '/v1beta/models/{model}:generateContent': 'text',
  '/v1beta/models/{model}:embedContent': 'embedding',
};

/** All public paths that a model can list. */
export const endpointPaths = Object.keys(kinds) as EndpointPath[];

/** The paths of a text model whose entry lists none. */
export const defaultPaths: readonly EndpointPath[] = [
  '/v1/chat/completions',
  '/v1/responses',
  '/v1/messages',
  '/v1beta/models/{model}:generateContent',
];

/** The paths of an embedding model of a preset. */
export const embeddingPaths: readonly EndpointPath[] = ['/v1/embeddings', '/v1beta/models/{model}:embedContent'];

/** The kinds of models that a provider can have, by its protocol. */
const kindsByProtocol: Readonly<Record<ProtocolName, readonly ModelKind[]>> = {
  chat: ['text', 'embedding', 'rerank'],
  responses: ['text', 'embedding', 'rerank'],
  messages: ['text'],
  gemini: ['text', 'embedding'],
  images: ['image'],
};

/** The names of all protocols. */
export const protocolNames = Object.keys(kindsByProtocol) as ProtocolName[];

/** The rules for each kind. */
export const kindRules: Readonly<Record<ModelKind, KindRules>> = {
  text: {
    name: 'text',
    needed: [['input', 'output']],
    optional: ['caching'],
  },
  image: {
    name: 'image',
    needed: [['image'], ['image_tokens']],
    optional: [],
  },
  embedding: {
    name: 'embedding',
    needed: [['input']],
    optional: [],
  },
  rerank: {
    name: 'rerank',
    needed: [['search'], ['input']],
    optional: [],
  },
};

/** Returns the prices that a model of a kind can't have. */
export function listForeignPrices(kind: ModelKind): PriceName[] {
  const { needed, optional } = kindRules[kind];
  const own: readonly PriceName[] = [...needed.flat(), ...optional];
  return priceNames.filter(name => !own.includes(name));
}

/** Returns the protocols that a model's providers may have. For /v1/completions it is only `chat`, because requests are passed on unchanged. */
export function listProtocols(paths: readonly EndpointPath[]): readonly string[] {
  if (paths.includes('/v1/completions')) return ['chat'];
  const kind = findModelKind(paths);
  return protocolNames.filter(name => kindsByProtocol[name].includes(kind));
}

/** Returns all kinds of the paths that a model lists. */
export function listKinds(paths: readonly EndpointPath[]): ModelKind[] {
  return [...new Set(paths.map(path => kinds[path]))];
}

/** Returns the kind of a model by the paths that it lists; without paths: text. */
export function findModelKind(paths: readonly EndpointPath[]): ModelKind {
  return listKinds(paths)[0] ?? 'text';
}
