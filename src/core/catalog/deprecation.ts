import { GatewayError } from '../../errors/gateway-error.ts';
import type { Model } from '../../gen/tollgate/v1/catalog_pb.ts';

/** The dates of a model’s end, and its replacement. */
type Ending = Pick<Model, 'id' | 'deprecatedAt' | 'retiresAt' | 'replacement'>;

/** Returns true if a model can no longer be used. */
export function isRetired({ retiresAt }: Ending, nowMs: number): boolean {
  return retiresAt !== 0n && nowMs >= Number(retiresAt) * 1000;
}

/** Returns the error for a model that is retired. */
export function retiredError({ id, retiresAt, replacement }: Ending): GatewayError {
  const instead = replacement === '' ? '' : ` Use ${replacement} instead.`;
  return new GatewayError('model_retired', `${id} was retired on ${day(retiresAt)}.${instead}`, {
    param: 'model',
    ...(replacement === '' ? {} : { tip: `Use ${replacement}.` }),
  });
}

/**
 * Returns the warning in `x-tollgate-warnings` for a model that is deprecated, as a list; empty if it is not. A model with a date of retirement alone is deprecated already.
 */
export function deprecationWarnings({ id, deprecatedAt, retiresAt, replacement }: Ending, nowMs: number): string[] {
  const isDeprecated = deprecatedAt === 0n ? retiresAt !== 0n : nowMs >= Number(deprecatedAt) * 1000;
  if (!isDeprecated) return [];
  const parts = [`deprecated=${id}`];
  if (retiresAt !== 0n) parts.push(`retires_at=${day(retiresAt)}`);
  if (replacement !== '') parts.push(`replacement=${replacement}`);
  return [parts.join(';')];
}

/** Returns the warnings of an answer with that of its model before them. */
export function withDeprecation(warnings: string[], model: Ending, nowMs: number): string[] {
  const own = deprecationWarnings(model, nowMs);
  return own.length === 0 ? warnings : [...own, ...warnings];
}

/** Returns a time in seconds as a day, or, if it is not midnight, as ISO 8601 in UTC. */
function day(seconds: bigint): string {
  return new Date(Number(seconds) * 1000).toISOString().replace(/T00:00:00\.000Z$/, '');
}
