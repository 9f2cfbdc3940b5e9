import { create, type Message } from '@bufbuild/protobuf';
import {
  type CachePricing,
  type ImagePrice,
  type Model,
  ModelSchema,
  type Pricing,
  type PricingAbove,
} from '../../gen/tollgate/v1/catalog_pb.ts';
import { endpointOf } from '../../generation/endpoints.ts';
import { tierByName } from '../service-tiers.ts';

type Plain<Fields extends Message, Other extends keyof Fields = never> = Readonly<Omit<Fields, keyof Message | Other>>;

/** A model as the configuration has it: plain values, because the core knows no configuration. */
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

interface ConfiguredPricing extends Plain<Pricing, 'images' | 'caching' | 'above'> {
  readonly images?: readonly Partial<Plain<ImagePrice>>[];
  readonly caching?: Plain<CachePricing>;
  readonly above: readonly (Plain<PricingAbove, 'caching'> & { readonly caching?: Plain<CachePricing> })[];
}

/** The catalogue's model. Throws where a path is none that a model can list. */
export function modelOf({ pricing, ...model }: ConfiguredModel): Model {
  const { images = [], above, ...prices } = pricing;
  return create(ModelSchema, {
    ...model,
    createdAt: BigInt(model.createdAt),
    endpoints: model.endpoints.map(path => {
      const endpoint = endpointOf(path);
      if (endpoint === undefined) throw new Error(`no endpoint has the path ${path}`);
      return endpoint;
    }),
    serviceTiers: model.serviceTiers.map(tier => tierByName[tier]),
    pricing: { ...prices, images: [...images], above: [...above] },
  });
}
