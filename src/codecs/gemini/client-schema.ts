import type { Json, JsonObject } from '../codec.ts';
import { listIn, objectIn } from '../json.ts';
import { toCamelCase } from './normal-form.ts';

/**
 * Translates schemas that clients write in Google's own form (OpenAPI 3.0 with types in capitals) to JSON Schema. Source: docs/interfaces/gemini.md "Request"; the type
 * `Schema` of `@google/genai`.
 */

const counts = new Set(['minItems', 'maxItems', 'minLength', 'maxLength', 'minProperties', 'maxProperties']);
const known = new Set([...counts, 'anyOf', 'propertyOrdering', 'additionalProperties']);

/** Returns a schema as JSON Schema; the input is not changed. */
export function toJsonSchema(schema: JsonObject): JsonObject {
  const result: JsonObject = {};
  for (const [name, value] of Object.entries(schema)) {
    const camel = toCamelCase(name);
    translate(known.has(camel) ? camel : name, value, result);
  }
  if (schema['nullable'] === true) allowNull(result);
  return result;
}

function translate(name: string, value: Json, result: JsonObject): void {
  switch (name) {
    // The order of properties is a hint that JSON Schema has no word for.
    case 'propertyOrdering':
    case 'nullable':
      return;
    case 'type':
      if (value !== 'TYPE_UNSPECIFIED') result['type'] = toType(value);
      return;
    case 'format':
      // Google's form marks enumerations so.
      if (value !== 'enum') result['format'] = value;
      return;
    case 'example':
      result['examples'] = [value];
      return;
    case 'properties':
    case '$defs':
      result[name] = Object.fromEntries(
        Object.entries(objectIn(value) ?? {}).map(([property, each]) => [property, nested(each)]),
      );
      return;
    case 'items':
    case 'additionalProperties':
      result[name] = nested(value);
      return;
    case 'anyOf':
      result['anyOf'] = listIn(value).map(nested);
      return;
    default:
      // Google's services write 64-bit integers as strings.
      result[name] = counts.has(name) && typeof value === 'string' ? Number(value) : value;
  }
}

function toType(value: Json): Json {
  if (Array.isArray(value)) return value.map(toType);
  return typeof value === 'string' ? value.toLowerCase() : value;
}

function nested(value: Json): Json {
  const schema = objectIn(value);
  return schema === undefined ? value : toJsonSchema(schema);
}

function allowNull(result: JsonObject): void {
  const { type } = result;
  if (typeof type === 'string') result['type'] = [type, 'null'];
  if (Array.isArray(result['anyOf'])) result['anyOf'] = [...result['anyOf'], { type: 'null' }];
  if (Array.isArray(result['enum'])) result['enum'] = [...result['enum'], null];
}
