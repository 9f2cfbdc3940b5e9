/** A JSON value, as `JSON.parse` makes it. */
export type Json = string | number | boolean | null | Json[] | JsonObject;
/** A JSON object. */
export type JsonObject = { readonly [member: string]: Json };

/** Whether a value is a JSON object (not an array, not null). */
export function isObject(value: Json | undefined): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** JSON text as a value; undefined where it is none. */
export function parseJson(text: string): Json | undefined {
  try {
    return JSON.parse(text) as Json;
  } catch {
    return undefined;
  }
}

/** Whether two values are the same JSON, whatever the order of members. */
export function isSame(a: Json, b: Json): boolean {
  if (a === b) return true;
  if (Array.isArray(a)) {
    return Array.isArray(b) && a.length === b.length && a.every((each, at) => isSame(each, b[at] ?? null));
  }
  if (!isObject(a) || !isObject(b)) return false;
  const members = Object.entries(a);
  return (
    members.length === Object.keys(b).length &&
    members.every(([name, value]) => Object.hasOwn(b, name) && isSame(value, b[name] ?? null))
  );
}

/** An object's own member of any name; undefined where it has none. */
export function memberOf(object: JsonObject, name: string): Json | undefined {
  return Object.hasOwn(object, name) ? object[name] : undefined;
}

/** A member that is a list; empty where it is missing or something else. */
export function listOf(schema: JsonObject, keyword: string): readonly Json[] {
  const value = memberOf(schema, keyword);
  return Array.isArray(value) ? value : [];
}

/** A member that is an object; empty where it is missing or something else. */
export function objectOf(schema: JsonObject, keyword: string): JsonObject {
  const value = memberOf(schema, keyword);
  return isObject(value) ? value : {};
}

/** A member that is a number; undefined where it is missing or something else. */
export function numberOf(schema: JsonObject, keyword: string): number | undefined {
  const value = memberOf(schema, keyword);
  return typeof value === 'number' ? value : undefined;
}

/** A member's strings; empty where it is missing or something else. */
export function stringsOf(schema: JsonObject, keyword: string): readonly string[] {
  return listOf(schema, keyword).filter(each => typeof each === 'string');
}

/** The types that a schema names; undefined: any. `nullable` (OpenAPI) adds null. */
export function typesOf(schema: JsonObject): readonly string[] | undefined {
  const { type } = schema;
  const named = typeof type === 'string' ? [type] : Array.isArray(type) ? stringsOf(schema, 'type') : undefined;
  return named !== undefined && schema['nullable'] === true ? [...named, 'null'] : named;
}

/** A value's JSON Schema type; whole numbers are integers. */
export function typeOf(value: Json): string {
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'array';
  if (typeof value === 'number') return Number.isInteger(value) ? 'integer' : 'number';
  return typeof value;
}

/** Follows a reference inside the same document ("#", "#/$defs/Node", "#anchor"); undefined where it leads nowhere. */
export function follow(root: Json, reference: string): Json | undefined {
  if (!reference.startsWith('#')) return undefined;
  if (reference.length > 1 && reference[1] !== '/') return anchored(root, reference.slice(1));
  let at: Json | undefined = root;
  for (const step of reference.split('/').slice(1)) {
    const name = decodeStep(step);
    if (Array.isArray(at)) at = at[Number(name)];
    else if (isObject(at) && Object.hasOwn(at, name)) at = at[name];
    else return undefined;
  }
  return at;
}

function decodeStep(step: string): string {
  const unescaped = step.replaceAll('~1', '/').replaceAll('~0', '~');
  try {
    return decodeURIComponent(unescaped);
  } catch {
    return unescaped;
  }
}

function anchored(root: Json, anchor: string): Json | undefined {
  if (!isObject(root)) return undefined;
  const definitions = { ...objectOf(root, 'definitions'), ...objectOf(root, '$defs') };
  return Object.values(definitions).find(each => isObject(each) && each['$anchor'] === anchor);
}
