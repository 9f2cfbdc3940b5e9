import type * as z from 'zod';

/**
 * Notes for the API reference on schemas whose rules are code, which the reference can't derive: refinements,
 * transformations, and choices by a function.
 */
export interface SchemaNote {
  /** Members to add to the JSON Schema of the schema. */
  readonly json?: Readonly<Record<string, unknown>>;
  /** A value must fit one of these schemas. */
  readonly among?: readonly z.core.$ZodType[];
}

const notes = new WeakMap<z.core.$ZodType, SchemaNote>();

/** Adds notes for the API reference to a schema. Returns the schema. */
export function documented<T extends z.core.$ZodType>(schema: T, note: SchemaNote): T {
  notes.set(schema, note);
  return schema;
}

/** Returns a schema's notes; undefined if it has none. */
export function findNote(schema: z.core.$ZodType): SchemaNote | undefined {
  return notes.get(schema);
}
