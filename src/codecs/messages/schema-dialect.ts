import type { Json, JsonObject } from '../codec.ts';
import { listIn, objectIn, textIn } from '../json.ts';

/**
 * Translates JSON Schema to the subset that Anthropic enforces in an answer's format and in tools with `strict`; it refuses any other. Sources, 2026-11-29: recorded
 * exchanges of claude-sonnet-4-5 and 4-6 (closed objects, `$ref`, `anyOf`); a copy of the page "Structured outputs" of Anthropic's documentation at
 * git.waymay.us/zhongwei/gh-cskiro-claudex (`schema-limitations.md`).
 */

/** The most tools of a request with `strict`. */
export const strictToolsMax = 20;

/** A schema in Anthropic's subset. */
interface EnforceableSchema {
  readonly schema: JsonObject;
  /** The keywords that are no longer checked, each once. Their rules are in the descriptions, for the model. */
  readonly lost: readonly string[];
}

/** Returns a schema that can be enforced; undefined if objects in it may have any members, or if it contains itself. The input is not changed. */
export function toEnforceable(schema: JsonObject): EnforceableSchema | undefined {
  if (isRecursive(schema)) return undefined;
  const lost = new Set<string>();
  const translated = toClosed(schema, lost);
  return translated && { schema: translated, lost: [...lost] };
}

const kept = new Set([
  'type',
  'title',
  'description',
  'enum',
  'const',
  'default',
  'required',
  '$ref',
  'additionalProperties',
]);
/** Keywords that check nothing. */
const annotations = new Set([
  '$schema',
  '$id',
  '$comment',
  'example',
  'examples',
  'deprecated',
  'readOnly',
  'writeOnly',
]);
const formats = new Set(['date-time', 'time', 'date', 'email', 'uri', 'uuid', 'ipv4', 'ipv6']);
const withSchemas = new Set(['anyOf', 'allOf']);
const withNamedSchemas = new Set(['properties', '$defs', 'definitions']);

function toClosed(schema: JsonObject, lost: Set<string>): JsonObject | undefined {
  const { additionalProperties: more, properties } = schema;
  const isObject = properties !== undefined || [schema['type']].flat().includes('object');
  // Closed, an object with free members would always be empty.
  const isEmpty = Object.keys(objectIn(properties) ?? {}).length === 0;
  if (isObject && (objectIn(more) !== undefined || (isEmpty && more !== false))) return undefined;
  const result: JsonObject = {};
  const notes: string[] = [];
  for (const [name, value] of Object.entries(schema)) {
    if (annotations.has(name) || name.startsWith('x-')) continue;
    const translated = kept.has(name) ? value : translateKeyword(name, value, lost);
    if (translated === undefined) return undefined;
    if (translated !== null || value === null) result[name] = translated;
    else {
      lost.add(name);
      notes.push(`${name}: ${JSON.stringify(value)}`);
    }
  }
  if (isObject) result['additionalProperties'] = false;
  const described = textIn(result['description']);
  if (notes.length > 0) result['description'] = `${described === '' ? '' : `${described} `}(${notes.join('; ')})`;
  return result;
}

/** Returns the value of a keyword; null if it can't be enforced; undefined if a schema in it has no enforceable form. */
function translateKeyword(name: string, value: Json, lost: Set<string>): Json | undefined {
  const nested = (each: Json): JsonObject | undefined => toClosed(objectIn(each) ?? {}, lost);
  if (name === 'items') return nested(value);
  if (withSchemas.has(name)) return allOrNone(listIn(value).map(nested));
  if (withNamedSchemas.has(name)) {
    const entries = Object.entries(objectIn(value) ?? {});
    const schemas = allOrNone(entries.map(([, each]) => nested(each)));
    return schemas && Object.fromEntries(schemas.map((each, index) => [entries[index]?.[0] ?? '', each]));
  }
  const isKept = name === 'format' ? formats.has(textIn(value)) : name === 'minItems' && (value === 0 || value === 1);
  return isKept ? value : null;
}

function allOrNone<T>(values: readonly (T | undefined)[]): T[] | undefined {
  const present = values.filter(value => value !== undefined);
  return present.length === values.length ? present : undefined;
}

/** Returns whether a definition of a schema refers to itself, directly or through others. */
function isRecursive(schema: JsonObject): boolean {
  const definitions = new Map<string, readonly string[]>([['#', referencesIn(schema, true)]]);
  for (const place of ['$defs', 'definitions']) {
    for (const [name, each] of Object.entries(objectIn(schema[place]) ?? {})) {
      definitions.set(`#/${place}/${name}`, referencesIn(each, false));
    }
  }
  const reaches = (from: string, path: readonly string[]): boolean =>
    path.includes(from) || (definitions.get(from) ?? []).some(each => reaches(each, [...path, from]));
  return [...definitions.keys()].some(each => reaches(each, []));
}

/** Returns the references in a schema; `isRoot`: those in its definitions are not its own. */
function referencesIn(value: Json, isRoot: boolean): string[] {
  if (Array.isArray(value)) return value.flatMap(each => referencesIn(each, false));
  const schema = objectIn(value);
  if (schema === undefined) return [];
  return Object.entries(schema).flatMap(([name, each]) => {
    if (name === '$ref') return typeof each === 'string' ? [each] : [];
    return isRoot && (name === '$defs' || name === 'definitions') ? [] : referencesIn(each, false);
  });
}
