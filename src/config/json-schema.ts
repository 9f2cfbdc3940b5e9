import * as z from 'zod';
import { findNote } from '../lib/schema-notes.ts';
import { fileSchema } from './schema.ts';

type Json = Record<string, unknown>;

/** Returns the JSON Schema of the configuration file, for editors. It has all keys and their allowed values, but no rules between keys, which only `config check` checks. */
export function configJsonSchema(): Json {
  return {
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    title: 'Tollgate configuration',
    ...toJson(fileSchema),
  };
}

function toJson(schema: z.core.$ZodType): Json {
  const note = findNote(schema);
  if (note?.json !== undefined) return note.json;
  if (note?.among !== undefined) return { anyOf: note.among.map(toJson) };
  if (schema instanceof z.ZodObject) return objectJson(schema);
  if (schema instanceof z.ZodRecord) return recordJson(schema);
  if (schema instanceof z.ZodArray) {
    const isFilled = schema._zod.def.checks?.some(({ _zod }) => _zod.def.check === 'min_length') === true;
    return { type: 'array', items: toJson(schema.element), ...(isFilled && { minItems: 1 }) };
  }
  if (schema instanceof z.ZodPipe) {
    // If the schema transforms a value, the JSON Schema is that of the value in the file.
    return toJson(schema.out instanceof z.ZodTransform ? schema.in : schema.out);
  }
  if (schema instanceof z.ZodOptional || schema instanceof z.ZodDefault || schema instanceof z.ZodPrefault) {
    return toJson(schema.unwrap());
  }
  throw new Error(`the configuration's JSON Schema lacks the kind ${schema._zod.def.type}`);
}

function recordJson({ keyType, valueType }: z.ZodRecord): Json {
  return { type: ['object', 'null'], propertyNames: toJson(keyType), additionalProperties: toJson(valueType) };
}

function objectJson({ shape }: z.ZodObject<Readonly<Record<string, z.core.$ZodType>>>): Json {
  const members = Object.entries(shape);
  const required = members.filter(([, member]) => member._zod.optin === undefined).map(([name]) => name);
  return {
    // In YAML a mapping without entries is null.
    type: ['object', 'null'],
    properties: Object.fromEntries(members.map(([name, member]) => [name, toJson(member)])),
    ...(required.length === 0 ? {} : { required }),
    additionalProperties: false,
  };
}
