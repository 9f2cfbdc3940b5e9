import type { GatewayClients } from '../gateway.ts';

/** A secret that was shown once. */
export interface MadeSecret {
  readonly account: string | null;
  /** The label of a key, or the address of a webhook. */
  readonly key?: string;
  readonly webhook?: string;
  readonly id: number;
  readonly secret: string;
}

/** One field that changes, as people and programs are shown it. */
export interface Change {
  readonly field: string;
  readonly from: unknown;
  readonly to: unknown;
}

/** Something to make, change or remove. */
export interface Step {
  readonly action: 'create' | 'update' | 'delete';
  /** "key". */
  readonly kind: string;
  readonly name: string;
  /** null: the operator's. */
  readonly account: string | null;
  readonly changes: readonly Change[];
  /** It makes a secret, which `run` returns. */
  readonly makesSecret: boolean;
  readonly run: (admin: GatewayClients['admin']) => Promise<MadeSecret | undefined>;
}

/** Fields by their name in the file. */
export type Fields = Readonly<Record<string, unknown>>;

/** Returns which of the wanted fields are not as they are. */
export function findChanges(wanted: Fields, present: Fields): Change[] {
  return Object.entries(wanted).flatMap(([field, to]) => {
    if (to === undefined) return [];
    const from = present[field] ?? null;
    return canonical(from) === canonical(to) ? [] : [{ field, from, to }];
  });
}

/** Returns a value as a text that equal values share, whatever the order of their members. */
export function canonical(value: unknown): string {
  return JSON.stringify(value, (_, each: unknown) => {
    if (typeof each === 'bigint') return `${each}n`;
    if (typeof each !== 'object' || each === null || Array.isArray(each)) return each;
    return Object.fromEntries(Object.entries(each).sort(([a], [b]) => (a < b ? -1 : 1)));
  });
}
