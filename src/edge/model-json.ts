import type { CachePricing, ImagePrice, Model, Pricing } from '../gen/tollgate/v1/catalog_pb.ts';
import { Endpoint, ServiceTier } from '../gen/tollgate/v1/request_pb.ts';
import { isoTime } from '../lib/clock.ts';
import { dollarsNumber } from '../lib/dollars.ts';

/** A model as REST clients see it: the specification's fields and those that both official clients' list calls read. Source: decisions §4. */

/** The public path of each endpoint that a model can list. */
export const endpointPaths = {
  [Endpoint.CHAT_COMPLETIONS]: '/v1/chat/completions',
  [Endpoint.RESPONSES]: '/v1/responses',
  [Endpoint.MESSAGES]: '/v1/messages',
  [Endpoint.IMAGE_GENERATIONS]: '/v1/images/generations',
  [Endpoint.IMAGE_EDITS]: '/v1/images/edits',
} as const satisfies Partial<Record<Endpoint, string>>;

/** Prices of cached input in dollars per 1 million tokens; null: charged as uncached input. */
export interface CachingJson {
  readonly read: number | null;
  readonly write_5m: number | null;
  readonly write_1h: number | null;
}

/** Prices in dollars per 1 million tokens; `image` in dollars a picture. null: it has no such price. */
export interface PricingJson {
  readonly input: number | null;
  readonly output: number | null;
  readonly image: number | null;
  readonly caching: CachingJson | null;
  readonly above: readonly {
    readonly input_tokens: number;
    readonly input: number;
    readonly output: number;
    readonly caching: CachingJson | null;
  }[];
  /** Of pictures at other sizes and qualities, the first that fits holds; null means any. Only where the model has such prices. */
  readonly images?: readonly {
    readonly size: string | null;
    readonly quality: string | null;
    readonly image: number;
  }[];
}

/** The model resource. */
export interface ModelJson {
  readonly id: string;
  readonly object: 'model';
  readonly created: number;
  readonly owned_by: string;
  readonly type: 'model';
  readonly display_name: string;
  readonly created_at: string;
  readonly name: string;
  readonly description: string;
  readonly context_length: number | null;
  readonly max_output_tokens: number | null;
  readonly endpoints: readonly string[];
  readonly capabilities: {
    readonly vision: boolean;
    readonly function_call: boolean;
    readonly reasoning: boolean;
    readonly service_tiers: readonly ('flex' | 'priority')[];
  };
  readonly available: boolean;
  readonly pricing: PricingJson;
}

/** Pico-dollars a token as dollars per 1 million tokens. Both operands are exact, so that the quotient is the double nearest to the decimal. */
function perMillion(picoUsd: bigint): number {
  return Number(picoUsd) / 1_000_000;
}

function optionalPerMillion(picoUsd: bigint | undefined): number | null {
  return picoUsd === undefined ? null : perMillion(picoUsd);
}

function cachingJson(caching: CachePricing | undefined): CachingJson | null {
  if (caching === undefined) return null;
  return {
    read: optionalPerMillion(caching.readPicoUsd),
    write_5m: optionalPerMillion(caching.write5mPicoUsd),
    write_1h: optionalPerMillion(caching.write1hPicoUsd),
  };
}

function imagesJson(rows: readonly ImagePrice[]): Pick<PricingJson, 'images'> {
  if (rows.length === 0) return {};
  const orNull = (text: string): string | null => (text === '' ? null : text);
  const images = rows.map(({ size, quality, imageNanoUsd }) => ({
    size: orNull(size),
    quality: orNull(quality),
    image: dollarsNumber(imageNanoUsd),
  }));
  return { images };
}

function pricingJson(pricing: Pricing | undefined): PricingJson {
  return {
    input: optionalPerMillion(pricing?.inputPicoUsd),
    output: optionalPerMillion(pricing?.outputPicoUsd),
    image: pricing?.imageNanoUsd === undefined ? null : dollarsNumber(pricing.imageNanoUsd),
    caching: cachingJson(pricing?.caching),
    above: (pricing?.above ?? []).map(step => ({
      input_tokens: step.inputTokens,
      input: perMillion(step.inputPicoUsd),
      output: perMillion(step.outputPicoUsd),
      caching: cachingJson(step.caching),
    })),
    ...imagesJson(pricing?.images ?? []),
  };
}

function isListed(endpoint: Endpoint): endpoint is keyof typeof endpointPaths {
  return endpoint in endpointPaths;
}

function tierNames(tiers: readonly ServiceTier[]): ('flex' | 'priority')[] {
  return tiers.flatMap(tier => {
    if (tier === ServiceTier.FLEX) return ['flex'];
    return tier === ServiceTier.PRIORITY ? ['priority'] : [];
  });
}

/** The resource of a model. */
export function modelJson(model: Model): ModelJson {
  return {
    id: model.id,
    object: 'model',
    created: Number(model.createdAt),
    owned_by: model.ownedBy,
    type: 'model',
    display_name: model.name,
    created_at: isoTime(Number(model.createdAt) * 1000),
    name: model.name,
    description: model.description,
    context_length: model.contextLength ?? null,
    max_output_tokens: model.maxOutputTokens ?? null,
    endpoints: model.endpoints.filter(isListed).map(endpoint => endpointPaths[endpoint]),
    capabilities: {
      vision: model.vision,
      function_call: model.functionCall,
      reasoning: model.reasoning,
      service_tiers: tierNames(model.serviceTiers),
    },
    available: model.available,
    pricing: pricingJson(model.pricing),
  };
}
