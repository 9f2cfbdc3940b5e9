import type { Json, JsonObject } from '../codec.ts';
import { listIn, objectIn, textIn } from '../json.ts';

/**
 * Translates JSON Schema to the subset that Gemini reads (`parametersJsonSchema`, `responseJsonSchema`). Keywords with another name there
 * are translated; rules that it can't enforce are added to the description for the model, and listed. Source: the public schema of
 * generateContent (`GenerationConfig.responseJsonSchema`).
 */

/** A schema in Gemini's subset. */
export interface TranslatedSchema {
  readonly schema: JsonObject;
  /** The keywords that are no longer checked, each once, in the order in which they were found. */
  readonly lost: readonly string[];
}

/** Translates a schema; the input is not changed. */
export function toDialect(schema: JsonObject): TranslatedSchema {
  const lost = new Set<string>();
  return { schema: translated(schema, lost), lost: [...lost] };
}

const kept = new Set([
  '$id',
  '$anchor',
  '$ref',
  'type',
  'format',
  'title',
  'description',
  'minItems',
  'maxItems',
  'required',
  'propertyOrdering',
]);
/** Descriptive keywords, which check nothing. */
const annotations = new Set([
  '$schema',
  '$comment',
  '$vocabulary',
  'default',
  'example',
  'examples',
  'deprecated',
  'readOnly',
  'writeOnly',
]);
const keywordsWithSchema = new Set(['items', 'additionalProperties']);
const keywordsWithSchemas = new Set(['anyOf', 'oneOf', 'prefixItems']);
const keywordsWithNamedSchemas: Readonly<Record<string, string>> = {
  properties: 'properties',
  $defs: '$defs',
  definitions: '$defs',
};

function translated(schema: JsonObject, lost: Set<string>): JsonObject {
  const merged = mergeAllOf(schema, lost);
  if (typeof merged['$ref'] === 'string') return reference(merged, lost);
  const result: JsonObject = {};
  const notes: string[] = [];
  // The type is set first because `enum` and `nullable` may add null to it.
  if (merged['type'] !== undefined) result['type'] = merged['type'];
  for (const [name, value] of Object.entries(merged)) {
    if (name === 'type') continue;
    const named = keywordsWithNamedSchemas[name];
    if (kept.has(name)) result[name] = value;
    else if (annotations.has(name) || name.startsWith('x-')) continue;
    else if (named !== undefined) result[named] = { ...objectIn(result[named]), ...eachNamed(value, lost) };
    else if (keywordsWithSchemas.has(name)) result[name] = listIn(value).map(each => nested(each, lost));
    else if (name === 'additionalProperties' && typeof value === 'boolean') result[name] = value;
    else if (keywordsWithSchema.has(name)) result[name] = nested(value, lost);
    else if (!translateKeyword(name, value, { result, schema: merged })) {
      lost.add(name);
      notes.push(`${name}: ${JSON.stringify(value)}`);
    }
  }
  if (merged['nullable'] === true) addNull(result);
  if (notes.length > 0) {
    const described = textIn(result['description']);
    result['description'] = `${described === '' ? '' : `${described} `}(${notes.join('; ')})`;
  }
  return result;
}

interface TranslationContext {
  readonly result: JsonObject;
  readonly schema: JsonObject;
}

/** Translates a keyword that needs a conversion; returns false if the dialect can't express it. */
function translateKeyword(name: string, value: Json, { result, schema }: TranslationContext): boolean {
  const isWhole = schema['type'] === 'integer' && typeof value === 'number' && Number.isInteger(value);
  switch (name) {
    case 'const':
      return setEnum([value], result);
    case 'enum':
      // Beside `const`, `enum` adds nothing: either it contains the constant, or no value is valid.
      return canBeEnumerated(schema['const']) || setEnum(listIn(value), result);
    case 'nullable':
      return typeof value === 'boolean';
    case 'minimum':
      return setBound(name, value, { result, tighter: Math.max });
    case 'maximum':
      return setBound(name, value, { result, tighter: Math.min });
    case 'exclusiveMinimum':
      return isWhole && setBound('minimum', value + 1, { result, tighter: Math.max });
    case 'exclusiveMaximum':
      return isWhole && setBound('maximum', value - 1, { result, tighter: Math.min });
    default:
      return false;
  }
}

interface Bound {
  readonly result: JsonObject;
  readonly tighter: (one: number, other: number) => number;
}

/** Sets a bound, or keeps the tighter one if it is already set. Returns false if the value is not a number. */
function setBound(name: string, value: Json, { result, tighter }: Bound): boolean {
  if (typeof value !== 'number') return false;
  const present = result[name];
  result[name] = typeof present === 'number' ? tighter(present, value) : value;
  return true;
}

function canBeEnumerated(value: Json | undefined): boolean {
  return typeof value === 'string' || typeof value === 'number';
}

/** Sets the enumeration; null becomes a type. Returns false if it is empty, mixes strings and numbers, or has values that are neither, except null. */
function setEnum(values: readonly Json[], result: JsonObject): boolean {
  const present = values.filter(value => value !== null);
  if (present.length === 0 && values.length > 0) {
    result['type'] = 'null';
    return true;
  }
  const isText = present.every(value => typeof value === 'string');
  if (present.length === 0 || !(isText || present.every(value => typeof value === 'number'))) return false;
  result['enum'] = present;
  result['type'] ??= isText ? 'string' : 'number';
  if (present.length < values.length) addNull(result);
  return true;
}

/** Makes a schema allow null too. A schema without a type allows null already, unless it has alternatives. */
function addNull(result: JsonObject): void {
  const { type } = result;
  if (type !== undefined) {
    const types = Array.isArray(type) ? type : [type];
    if (!types.includes('null')) result['type'] = [...types, 'null'];
    return;
  }
  for (const name of ['anyOf', 'oneOf']) {
    const either = listIn(result[name]);
    const allowsNull = either.some(each => objectIn(each)?.['type'] === 'null');
    if (either.length > 0 && !allowsNull) result[name] = [...either, { type: 'null' }];
  }
}

/** Translates a reference. The dialect does not allow other keywords beside it. */
function reference(schema: JsonObject, lost: Set<string>): JsonObject {
  const result: JsonObject = { $ref: textIn(schema['$ref']).replace(/^#\/definitions\//, '#/$defs/') };
  for (const [name, value] of Object.entries(schema)) {
    const named = keywordsWithNamedSchemas[name];
    if (named === '$defs') result['$defs'] = { ...objectIn(result['$defs']), ...eachNamed(value, lost) };
    else if (name !== '$ref' && name !== 'title' && name !== 'description' && !annotations.has(name)) lost.add(name);
  }
  return result;
}

function eachNamed(value: Json, lost: Set<string>): JsonObject {
  const entries = Object.entries(objectIn(value) ?? {});
  return Object.fromEntries(entries.map(([name, schema]) => [name, nested(schema, lost)]));
}

/** Translates a nested schema. `true` becomes the empty schema, which allows anything; `false` can't be expressed. */
function nested(value: Json, lost: Set<string>): JsonObject {
  const schema = objectIn(value);
  if (schema !== undefined) return translated(schema, lost);
  if (value === false) lost.add('false');
  return {};
}

/** Merges the schemas of `allOf` into their parent. If two conflict in a keyword, the parent wins, then the earlier one, and `allOf` is listed as lost. */
function mergeAllOf(schema: JsonObject, lost: Set<string>): JsonObject {
  if (!Array.isArray(schema['allOf'])) return schema;
  const { allOf, ...result } = schema;
  for (const value of listIn(allOf)) {
    const part = mergeAllOf(objectIn(value) ?? {}, lost);
    for (const [name, member] of Object.entries(part)) {
      const present = result[name];
      if (present === undefined) result[name] = member;
      else if (name === 'properties' || name === '$defs') result[name] = { ...objectIn(member), ...objectIn(present) };
      else if (name === 'required') result[name] = [...new Set([...listIn(present), ...listIn(member)])];
      else if (JSON.stringify(present) !== JSON.stringify(member) && !annotations.has(name)) lost.add('allOf');
    }
  }
  return result;
}
