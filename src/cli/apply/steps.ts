import type { GatewayClients } from '../gateway.ts';

/** A secret that the gateway shows only once. */
export interface MadeSecret {
  readonly account: string | null;
  /** The label of a key, or the address of a webhook. */
  readonly key?: string;
  readonly webhook?: string;
  readonly id: number;
  readonly secret: string;
}

/** A field that changes, as it is printed. */
export interface Change {
  readonly field: string;
  readonly from: unknown;
  readonly to: unknown;
}

/** An object to create, update or delete. */
export interface Step {
  readonly action: 'create' | 'update' | 'delete';
  /** The kind of object ("key"). */
  readonly kind: string;
  readonly name: string;
  /** The account's name; null for the operator. */
  readonly account: string | null;
  readonly changes: readonly Change[];
  /** True if the step creates a secret, which `run` returns. */
  readonly makesSecret: boolean;
  readonly run: (admin: GatewayClients['admin']) => Promise<MadeSecret | undefined>;
}

/** The fields of an object, by their names in the file. */
export type Fields = Readonly<Record<string, unknown>>;

/** Returns the wanted fields whose current values are different. */
export function findChanges(wanted: Fields, present: Fields): Change[] {
  return Object.entries(wanted).flatMap(([field, to]) => {
    if (to === undefined) return [];
    const from = present[field] ?? null;
    return canonical(from) === canonical(to) ? [] : [{ field, from, to }];
  });
}

/** Returns a value as a text that is the same for equal values, whatever the order of their members. */
export function canonical(value: unknown): string {
  return JSON.stringify(value, (_, each: unknown) => {
    if (typeof each === 'bigint') return `${each}n`;
    if (typeof each !== 'object' || each === null || Array.isArray(each)) return each;
    return Object.fromEntries(Object.entries(each).sort(([a], [b]) => (a < b ? -1 : 1)));
  });
}
