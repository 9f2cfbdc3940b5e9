import { create, type Message } from '@bufbuild/protobuf';
import {
  type CachePricing,
  type ImagePrice,
  type ImageTokenPricing,
  type Model,
  ModelSchema,
  type Pricing,
  PricingSchema,
  type PricingAbove,
} from '../../gen/tollgate/v1/catalog_pb.ts';
import { findEndpoint } from '../../generation/endpoints.ts';
import { toTierFields } from '../../generation/service-tier.ts';

/** The fields of a protobuf message as plain values, except those that have another type in the configuration. */
type Plain<Fields extends Message, Replaced extends keyof Fields = never> = Readonly<
  Omit<Fields, keyof Message | Replaced>
>;

/** A configured model, as plain values, because the core does not import `src/config`. */
export interface ConfiguredModel extends Plain<
  Model,
  | 'createdAt'
  | 'endpoints'
  | 'serviceTiers'
  | 'pricing'
  | 'dimensions'
  | 'tokenizer'
  | 'deprecatedAt'
  | 'retiresAt'
  | 'replacement'
> {
  /** Seconds since 1970 UTC. */
  readonly createdAt: number;
  /** Public paths. */
  readonly endpoints: readonly string[];
  readonly serviceTiers: readonly ('flex' | 'priority')[];
  readonly pricing: ConfiguredPricing;
  /** True if an embedding model makes vectors of a requested length; absent: false. */
  readonly dimensions?: boolean;
  /** The vocabulary of an embedding model's token ids; absent: unknown. */
  readonly tokenizer?: string;
  /** Seconds since 1970 UTC; absent: no date is set. */
  readonly deprecatedAt?: number;
  readonly retiresAt?: number;
  /** The listed id to use instead. */
  readonly replacement?: string;
}

/** Prices from the configuration. */
export interface ConfiguredPricing extends Plain<
  Pricing,
  'images' | 'caching' | 'above' | 'toolNanoUsd' | 'tierPermille' | 'imageTokens'
> {
  readonly tierPermille?: Readonly<Record<string, number>>;
  readonly imageTokens?: Plain<ImageTokenPricing>;
  readonly toolNanoUsd?: Readonly<Record<string, bigint>>;
  readonly images?: readonly Partial<Plain<ImagePrice>>[];
  readonly caching?: Plain<CachePricing>;
  readonly above: readonly (Plain<PricingAbove, 'caching'> & { readonly caching?: Plain<CachePricing> })[];
}

/** Converts a configured model to the catalogue's. Throws if it lists a path that is not an endpoint. */
export function toModel({ pricing, ...model }: ConfiguredModel): Model {
  return create(ModelSchema, {
    ...model,
    createdAt: BigInt(model.createdAt),
    deprecatedAt: BigInt(model.deprecatedAt ?? 0),
    retiresAt: BigInt(model.retiresAt ?? 0),
    endpoints: model.endpoints.map(path => {
      const endpoint = findEndpoint(path);
      if (endpoint === undefined) throw new Error(`no endpoint has the path ${path}`);
      return endpoint;
    }),
    serviceTiers: model.serviceTiers.map(tier => toTierFields(tier).serviceTier),
    pricing: toPricing(pricing),
  });
}

/** Converts configured prices to their protobuf message. */
export function toPricing({ images = [], above, ...prices }: ConfiguredPricing): Pricing {
  return create(PricingSchema, { ...prices, images: [...images], above: [...above] });
}
