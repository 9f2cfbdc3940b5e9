import { create, type Message } from '@bufbuild/protobuf';
import {
  type CachePricing,
  type ImagePrice,
  type Model,
  ModelSchema,
  type Pricing,
  PricingSchema,
  type PricingAbove,
} from '../../gen/tollgate/v1/catalog_pb.ts';
import { findEndpoint } from '../../generation/endpoints.ts';
import { tierByName } from '../service-tiers.ts';

type Plain<Fields extends Message, Other extends keyof Fields = never> = Readonly<Omit<Fields, keyof Message | Other>>;

/** A model from the configuration, as plain values: the core does not import the configuration. */
export interface ConfiguredModel extends Plain<
  Model,
  'createdAt' | 'endpoints' | 'serviceTiers' | 'pricing' | 'dimensions' | 'tokenizer'
> {
  /** Seconds since 1970 UTC. */
  readonly createdAt: number;
  /** Public paths. */
  readonly endpoints: readonly string[];
  readonly serviceTiers: readonly ('flex' | 'priority')[];
  readonly pricing: ConfiguredPricing;
  /** Absent: no. */
  readonly dimensions?: boolean;
  /** Absent: not known. */
  readonly tokenizer?: string;
}

/** Prices from the configuration. */
export interface ConfiguredPricing extends Plain<Pricing, 'images' | 'caching' | 'above' | 'toolNanoUsd'> {
  readonly toolNanoUsd?: Readonly<Record<string, bigint>>;
  readonly images?: readonly Partial<Plain<ImagePrice>>[];
  readonly caching?: Plain<CachePricing>;
  readonly above: readonly (Plain<PricingAbove, 'caching'> & { readonly caching?: Plain<CachePricing> })[];
}

/** Converts a configured model to the catalogue's. Throws for a path that a model can't list. */
export function toModel({ pricing, ...model }: ConfiguredModel): Model {
  return create(ModelSchema, {
    ...model,
    createdAt: BigInt(model.createdAt),
    endpoints: model.endpoints.map(path => {
      const endpoint = findEndpoint(path);
      if (endpoint === undefined) throw new Error(`no endpoint has the path ${path}`);
      return endpoint;
    }),
    serviceTiers: model.serviceTiers.map(tier => tierByName[tier]),
    pricing: toPricing(pricing),
  });
}

/** Returns the contract's prices. */
export function toPricing({ images = [], above, ...prices }: ConfiguredPricing): Pricing {
  return create(PricingSchema, { ...prices, images: [...images], above: [...above] });
}
