import { unescape } from 'node:querystring';

/** A JSON value, as `JSON.parse` makes it. */
export type Json = string | number | boolean | null | Json[] | JsonObject;
/** A JSON object. */
export type JsonObject = { readonly [member: string]: Json };

/** Returns whether a value is a JSON object (not an array, not null). */
export function isObject(value: Json | undefined): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Parses JSON text; undefined if it is invalid. */
export function parseJson(text: string): Json | undefined {
  try {
    return JSON.parse(text) as Json;
  } catch {
    return undefined;
  }
}

/** Returns an object's own member of that name; undefined if it has none. */
export function readMember(object: JsonObject, name: string): Json | undefined {
  return Object.hasOwn(object, name) ? object[name] : undefined;
}

/** Returns a member that is a list; empty if it is missing or something else. */
export function readList(schema: JsonObject, keyword: string): readonly Json[] {
  const value = readMember(schema, keyword);
  return Array.isArray(value) ? value : [];
}

/** Returns a member that is an object; empty if it is missing or something else. */
export function readObject(schema: JsonObject, keyword: string): JsonObject {
  const value = readMember(schema, keyword);
  return isObject(value) ? value : {};
}

/** Returns a member that is a number; undefined if it is missing or something else. */
export function readNumber(schema: JsonObject, keyword: string): number | undefined {
  const value = readMember(schema, keyword);
  return typeof value === 'number' ? value : undefined;
}

/** Returns a member's strings; empty if it is missing or something else. */
export function readStrings(schema: JsonObject, keyword: string): readonly string[] {
  return readList(schema, keyword).filter(each => typeof each === 'string');
}

/** Returns the types that a schema allows; undefined if it names none, so that all are allowed. `nullable` (OpenAPI) adds null. */
export function readTypes(schema: JsonObject): readonly string[] | undefined {
  const { type } = schema;
  const named = typeof type === 'string' ? [type] : Array.isArray(type) ? readStrings(schema, 'type') : undefined;
  return named !== undefined && schema['nullable'] === true ? [...named, 'null'] : named;
}

/** Returns whether one of the types allows values of `type`; `number` allows integers. */
export function allowsType(types: readonly string[], type: string): boolean {
  return types.includes(type) || (type === 'integer' && types.includes('number'));
}

/** Returns the schemas for the first elements of an array, and the schema for all others (draft 7 or 2020-12). */
export function elementSchemas(schema: JsonObject): { readonly first: readonly Json[]; readonly rest: Json } {
  const { items = true, additionalItems = true } = schema;
  return Array.isArray(items)
    ? { first: items, rest: additionalItems }
    : { first: readList(schema, 'prefixItems'), rest: items };
}

/** Longer references are not followed, because each is split again for every value. */
const referenceMax = 1_024;

/** Follows a reference inside the same document ("#", "#/$defs/Node", "#anchor"); undefined if it leads nowhere or is longer than 1,024 characters. */
export function follow(root: Json, reference: string): Json | undefined {
  if (!reference.startsWith('#') || reference.length > referenceMax) return undefined;
  const [anchor, ...steps] = unescape(reference.slice(1)).split('/');
  if (anchor !== '') return findAnchor(root, anchor);
  let at: Json | undefined = root;
  for (const step of steps) {
    const name = step.replaceAll('~1', '/').replaceAll('~0', '~');
    at = typeof at === 'object' && at !== null ? readMember(at as JsonObject, name) : undefined;
  }
  return at;
}

/** The anchors of each document. They are read once. */
const anchorsByRoot = new WeakMap<JsonObject, ReadonlyMap<Json | undefined, Json>>();

function findAnchor(root: Json, anchor: string | undefined): Json | undefined {
  if (!isObject(root)) return undefined;
  const anchors = anchorsByRoot.get(root) ?? readAnchors(root);
  anchorsByRoot.set(root, anchors);
  return anchors.get(anchor);
}

function readAnchors(root: JsonObject): Map<Json | undefined, Json> {
  const definitions = [readObject(root, 'definitions'), readObject(root, '$defs')].flatMap(Object.values<Json>);
  // If several definitions have the same anchor, the first one counts.
  const named = definitions.toReversed().filter(isObject);
  return new Map(named.map(each => [each['$anchor'], each]));
}
