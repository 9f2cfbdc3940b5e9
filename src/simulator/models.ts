import type { MessageInitShape } from '@bufbuild/protobuf';
import type { CachePricingSchema, ModelSchema } from '../gen/tollgate/v1/catalog_pb.ts';
import { Endpoint, ServiceTier } from '../gen/tollgate/v1/request_pb.ts';

/** A built-in model as the catalogue lists it; its id is also the name by which the simulator knows it. */
export type SimulatorModel = MessageInitShape<typeof ModelSchema> & {
  readonly id: string;
  readonly contextLength: number;
  readonly maxOutputTokens: number;
};

/** Shared by all built-in text models. Prices are in dollars per 1 million tokens. */
const textModel = {
  ownedBy: 'tollgate-simulator',
  createdAt: 1_790_000_000n,
  contextLength: 128_000,
  maxOutputTokens: 16_384,
  endpoints: [Endpoint.CHAT_COMPLETIONS, Endpoint.RESPONSES, Endpoint.MESSAGES, Endpoint.GEMINI],
  vision: false,
  functionCall: true,
  reasoning: false,
  serviceTiers: [] as ServiceTier[],
  available: true,
};

/** Converts dollars per 1 million tokens to pico-dollars a token. */
function pico(dollars: number): bigint {
  return BigInt(Math.round(dollars * 1_000_000));
}

function caching(read: number, write5m?: number, write1h?: number): MessageInitShape<typeof CachePricingSchema> {
  return {
    readPicoUsd: pico(read),
    ...(write5m === undefined ? {} : { write5mPicoUsd: pico(write5m) }),
    ...(write1h === undefined ? {} : { write1hPicoUsd: pico(write1h) }),
  };
}

/** The built-in text models, one for each combination of features that a catalogue can have. */
export const simulatorModels: readonly SimulatorModel[] = [
  {
    ...textModel,
    id: 'sim/large',
    name: 'Simulator Large',
    description:
      'Has every feature: images, tools, reasoning, service tiers, prompt caching by cache hints (5 minutes, 1 hour).',
    vision: true,
    reasoning: true,
    serviceTiers: [ServiceTier.FLEX, ServiceTier.PRIORITY],
    pricing: { inputPicoUsd: pico(1), outputPicoUsd: pico(4), caching: caching(0.1, 1.25, 2) },
  },
  {
    ...textModel,
    id: 'sim/small',
    endpoints: [...textModel.endpoints, Endpoint.COMPLETIONS],
    name: 'Simulator Small',
    description:
      'Text and tools at a tenth of the price; long prompts are cached automatically and read at half the price.',
    maxOutputTokens: 8_192,
    pricing: { inputPicoUsd: pico(0.1), outputPicoUsd: pico(0.4), caching: caching(0.05) },
  },
  {
    ...textModel,
    id: 'sim/small:free',
    name: 'Simulator Small (free)',
    description: 'The small model, free within the free-model limits.',
    maxOutputTokens: 8_192,
    pricing: { inputPicoUsd: 0n, outputPicoUsd: 0n },
  },
  {
    ...textModel,
    id: 'sim/long',
    name: 'Simulator Long',
    description: 'Long context; a request with more than 32,000 input tokens pays the higher prices for all of it.',
    contextLength: 1_000_000,
    maxOutputTokens: 65_536,
    vision: true,
    reasoning: true,
    pricing: {
      inputPicoUsd: pico(0.5),
      outputPicoUsd: pico(2),
      caching: caching(0.05, 0.625, 1),
      above: [
        {
          inputTokens: 32_000,
          inputPicoUsd: pico(1),
          outputPicoUsd: pico(3),
          caching: caching(0.1, 1.25, 2),
        },
      ],
    },
  },
  {
    ...textModel,
    id: 'sim/uncached',
    name: 'Simulator Uncached',
    description: 'Images, tools and reasoning without prompt caching.',
    vision: true,
    reasoning: true,
    pricing: { inputPicoUsd: pico(0.8), outputPicoUsd: pico(3.2) },
  },
  {
    ...textModel,
    id: 'sim/writer',
    name: 'Simulator Writer',
    description: 'Text only: no tools, no images, no reasoning.',
    functionCall: false,
    maxOutputTokens: 32_768,
    pricing: { inputPicoUsd: pico(0.2), outputPicoUsd: pico(0.8) },
  },
  {
    ...textModel,
    id: 'sim/unavailable',
    name: 'Simulator Unavailable',
    description: 'Listed, but not routable: shows what clients see of such a model.',
    available: false,
    pricing: { inputPicoUsd: pico(1), outputPicoUsd: pico(4) },
  },
];

const imageModel = {
  ownedBy: 'tollgate-simulator',
  createdAt: 1_790_000_000n,
  available: true,
  maxSize: '2048x2048',
};

/** The built-in image models. They are separate from the text models, because they are listed only if images can be drawn. */
export const simulatorImageModels: readonly (MessageInitShape<typeof ModelSchema> & { readonly id: string })[] = [
  {
    ...imageModel,
    id: 'sim/image',
    name: 'Simulator Image',
    description: 'Draws an image from prompt and seed.',
    endpoints: [Endpoint.IMAGE_GENERATIONS],
    pricing: {
      imageNanoUsd: 20_000_000n,
      images: [
        { quality: 'high', imageNanoUsd: 40_000_000n },
        { quality: 'hd', imageNanoUsd: 40_000_000n },
        { size: '2048x2048', imageNanoUsd: 40_000_000n },
      ],
    },
  },
  {
    ...imageModel,
    id: 'sim/image-edit',
    name: 'Simulator Image Edit',
    description: 'Edits an image under its mask, from prompt and seed.',
    endpoints: [Endpoint.IMAGE_EDITS],
    pricing: { imageNanoUsd: 30_000_000n },
  },
];

/** The built-in embedding models. */
export const simulatorEmbeddingModels: readonly (MessageInitShape<typeof ModelSchema> & { readonly id: string })[] = [
  {
    ownedBy: 'tollgate-simulator',
    createdAt: 1_790_000_000n,
    available: true,
    id: 'sim/embed',
    name: 'Simulator Embed',
    description: 'Vectors of 256 numbers, or fewer on request; texts that share words have similar ones.',
    contextLength: 8_192,
    endpoints: [Endpoint.EMBEDDINGS, Endpoint.GEMINI_EMBEDDINGS],
    dimensions: true,
    tokenizer: 'cl100k_base',
    pricing: { inputPicoUsd: pico(0.02) },
  },
];

/** The built-in rerank models. */
export const simulatorRerankModels: readonly (MessageInitShape<typeof ModelSchema> & { readonly id: string })[] = [
  {
    ownedBy: 'tollgate-simulator',
    createdAt: 1_790_000_000n,
    available: true,
    id: 'sim/rerank',
    name: 'Simulator Rerank',
    description: 'Orders documents by how many words they share with the query.',
    contextLength: 8_192,
    endpoints: [Endpoint.RERANK],
    pricing: { searchNanoUsd: 2_000_000n },
  },
];

/** How a model caches prompts: at the client's cache hints, automatically for every common prefix, or not at all. */
export type CacheMode = 'hints' | 'automatic' | 'none';

/** Returns the cache mode of a model by its prices: if cache writes have a price, the client's hints decide what is written. */
export function readCacheMode(model: SimulatorModel): CacheMode {
  const prices = model.pricing?.caching;
  if (prices === undefined) return 'none';
  return prices.write5mPicoUsd === undefined ? 'automatic' : 'hints';
}
