import * as z from 'zod';
import { findNote } from '../../lib/schema-notes.ts';

/** Converts Zod schemas to the JSON Schemas of the API reference. */

/** JSON Schema, or a part of it. */
export type JsonSchema = Record<string, unknown>;

/** The schemas that have a name in the reference, to which other schemas refer. */
const components = z.registry<{ readonly id: string; readonly fields?: Readonly<Record<string, string>> }>();

/** Gives a schema a name in the reference, and returns it. `fields`: descriptions for members whose own schemas have none. */
export function named<T extends z.ZodType>(id: string, schema: T, fields?: Readonly<Record<string, string>>): T {
  components.add(schema, fields === undefined ? { id } : { id, fields });
  return schema;
}

/** Returns a reference to a named schema. Throws if it has no name. */
export function refTo(schema: z.ZodType): JsonSchema {
  const id = components.get(schema)?.id;
  if (id === undefined) throw new Error('a schema without a name in the reference');
  return { $ref: `#/components/schemas/${id}` };
}

/** Returns the JSON Schemas of all schemas that have a name, by name. */
export function namedSchemas(): Readonly<Record<string, JsonSchema>> {
  const { schemas } = z.toJSONSchema(components, {
    io: 'input',
    unrepresentable: 'any',
    uri: id => `#/components/schemas/${id}`,
    override: addNotes,
  });
  const sorted = Object.entries(schemas).toSorted(([one], [other]) => (one < other ? -1 : 1));
  return Object.fromEntries(sorted.map(([id, schema]) => [id, plain(schema)]));
}

/** Returns the JSON Schema of a schema without a name. */
export function toJsonSchema(schema: z.core.$ZodType): JsonSchema {
  return plain(z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any', override: addNotes }));
}

/** Removes the members that identify a schema document, because this schema is embedded in another document. */
function plain(schema: object): JsonSchema {
  const { $schema: _schema, $id: _id, id: _name, fields: _fields, ...members } = schema as JsonSchema;
  return members;
}

interface Overridden {
  readonly zodSchema: z.core.$ZodType;
  readonly jsonSchema: JsonSchema;
}

function addNotes({ zodSchema, jsonSchema }: Overridden): void {
  const note = findNote(zodSchema);
  if (note?.among !== undefined) jsonSchema['anyOf'] = note.among.map(toJsonSchema);
  if (note?.json !== undefined) Object.assign(jsonSchema, note.json);
  // Each alternative has its type.
  if (note !== undefined && 'anyOf' in jsonSchema) delete jsonSchema['type'];
  const texts = components.get(zodSchema)?.fields ?? {};
  const properties = (jsonSchema['properties'] ?? {}) as Record<string, JsonSchema>;
  for (const [name, description] of Object.entries(texts)) {
    const property = properties[name];
    if (property !== undefined) properties[name] = { ...property, description };
  }
}
