import type * as z from 'zod';

/**
 * Notes for the API reference on schemas whose rules are code: a refinement, a transformation, a choice by a
 * function.
 */
export interface SchemaNote {
  /** Members of its JSON Schema: they are added to what the schema itself says. */
  readonly json?: Readonly<Record<string, unknown>>;
  /** The schemas of which a value must fit one. */
  readonly among?: readonly z.core.$ZodType[];
}

const notes = new WeakMap<z.core.$ZodType, SchemaNote>();

/** Notes what the API reference says of a schema. Returns the schema. */
export function documented<T extends z.core.$ZodType>(schema: T, note: SchemaNote): T {
  notes.set(schema, note);
  return schema;
}

/** Returns what was noted of a schema; undefined if it speaks for itself. */
export function findNote(schema: z.core.$ZodType): SchemaNote | undefined {
  return notes.get(schema);
}
