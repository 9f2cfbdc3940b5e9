import { create } from '@bufbuild/protobuf';
import {
  type CachePricing,
  CachePricingSchema,
  ImagePriceSchema,
  type Model,
  ModelSchema,
  PricingAboveSchema,
  PricingSchema,
} from '../../gen/tollgate/v1/catalog_pb.ts';
import { ServiceTier } from '../../gen/tollgate/v1/request_pb.ts';
import { endpointOf } from '../../generation/endpoints.ts';

/** A model as the configuration has it: plain values, because the core knows no configuration. Units are in the names. */
export interface ConfiguredModel {
  readonly id: string;
  readonly name: string;
  readonly description: string;
  readonly ownedBy: string;
  /** Seconds since 1970 UTC. */
  readonly createdAt: number;
  readonly contextLength?: number;
  readonly maxOutputTokens?: number;
  /** Public paths. */
  readonly endpoints: readonly string[];
  readonly vision: boolean;
  readonly functionCall: boolean;
  readonly reasoning: boolean;
  readonly serviceTiers: readonly ('flex' | 'priority')[];
  readonly available: boolean;
  readonly pricing: ConfiguredPricing;
  readonly maxSize: string;
}

interface ConfiguredPricing {
  readonly inputPicoUsd?: bigint;
  readonly outputPicoUsd?: bigint;
  readonly imageNanoUsd?: bigint;
  readonly images?: readonly { readonly size?: string; readonly quality?: string; readonly imageNanoUsd: bigint }[];
  readonly caching?: ConfiguredCaching;
  readonly above: readonly ConfiguredAbove[];
}

interface ConfiguredCaching {
  readonly readPicoUsd?: bigint;
  readonly write5mPicoUsd?: bigint;
  readonly write1hPicoUsd?: bigint;
}

interface ConfiguredAbove {
  readonly inputTokens: number;
  readonly inputPicoUsd: bigint;
  readonly outputPicoUsd: bigint;
  readonly caching?: ConfiguredCaching;
}

/** The tier that a word of the public interfaces names. */
export const tierByName: Readonly<Record<'flex' | 'priority', ServiceTier>> = {
  flex: ServiceTier.FLEX,
  priority: ServiceTier.PRIORITY,
};

/** The catalogue's model. Throws where a path is none that a model can list. */
export function modelOf(model: ConfiguredModel): Model {
  const { contextLength, maxOutputTokens } = model;
  return create(ModelSchema, {
    id: model.id,
    name: model.name,
    description: model.description,
    ownedBy: model.ownedBy,
    createdAt: BigInt(model.createdAt),
    ...(contextLength === undefined ? {} : { contextLength }),
    ...(maxOutputTokens === undefined ? {} : { maxOutputTokens }),
    endpoints: model.endpoints.map(path => {
      const endpoint = endpointOf(path);
      if (endpoint === undefined) throw new Error(`no endpoint has the path ${path}`);
      return endpoint;
    }),
    vision: model.vision,
    functionCall: model.functionCall,
    reasoning: model.reasoning,
    serviceTiers: model.serviceTiers.map(tier => tierByName[tier]),
    available: model.available,
    pricing: pricingOf(model.pricing),
    maxSize: model.maxSize,
  });
}

function pricingOf({ above, caching, images = [], ...prices }: ConfiguredPricing): Model['pricing'] {
  return create(PricingSchema, {
    ...prices,
    images: images.map(row => create(ImagePriceSchema, row)),
    ...cachingOf(caching),
    above: above.map(({ caching: stepCaching, ...step }) =>
      create(PricingAboveSchema, { ...step, ...cachingOf(stepCaching) }),
    ),
  });
}

function cachingOf(caching: ConfiguredCaching | undefined): { caching?: CachePricing } {
  return caching === undefined ? {} : { caching: create(CachePricingSchema, caching) };
}
