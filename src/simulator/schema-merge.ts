import {
  type Json,
  type JsonObject,
  follow,
  isObject,
  isSame,
  listOf,
  memberOf,
  numberOf,
  objectOf,
  stringsOf,
  typesOf,
} from './json-schema.ts';
import type { SchemaBudget } from './schema-check.ts';

/** A schema without references and `allOf`: what must hold, and groups of alternatives of which one each must hold too. */
export interface FlatSchema {
  readonly schema: JsonObject;
  readonly groups: readonly (readonly Json[])[];
}

/** References and `allOf`s that are followed for one place in a schema; more of them are a circle. */
const hopsMax = 64;

/** Of two lists of values that must both hold so many are compared. */
const comparedMax = 500;

const raised = new Set([
  'minimum',
  'exclusiveMinimum',
  'minLength',
  'minItems',
  'minProperties',
  'minContains',
  'multipleOf',
]);
const lowered = new Set(['maximum', 'exclusiveMaximum', 'maxLength', 'maxItems', 'maxProperties', 'maxContains']);
const keyed = new Set(['properties', 'patternProperties', 'dependentSchemas']);
const nested = new Set(['items', 'additionalProperties', 'contains', 'propertyNames', 'additionalItems']);
/** Taken apart into groups, or followed. */
const structural = new Set(['$ref', 'allOf', 'anyOf', 'oneOf', 'if', 'then', 'else']);

function both(a: Json, b: Json): Json {
  return isSame(a, b) ? a : { allOf: [a, b] };
}

function mergeTypes(a: JsonObject, b: JsonObject): Json {
  const first = typesOf(a) ?? [];
  const second = typesOf(b) ?? [];
  const common = first.filter(type => second.includes(type) || (type === 'integer' && second.includes('number')));
  if (first.includes('number') && second.includes('integer') && !common.includes('integer')) common.push('integer');
  return common;
}

function mergeKeyed(a: JsonObject, b: JsonObject): JsonObject {
  const merged = Object.entries(b).map(([name, value]): [string, Json] => {
    const before = memberOf(a, name);
    return [name, before === undefined ? value : both(before, value)];
  });
  return Object.fromEntries([...Object.entries(a), ...merged]);
}

function mergeKeyword(a: JsonObject, b: JsonObject, keyword: string): Json {
  const [before = null, added = null] = [a[keyword], b[keyword]];
  if (keyword === 'type') return mergeTypes(a, b);
  if (keyed.has(keyword)) return mergeKeyed(objectOf(a, keyword), objectOf(b, keyword));
  if (nested.has(keyword)) return both(before, added);
  if (keyword === 'required') return [...new Set([...stringsOf(a, keyword), ...stringsOf(b, keyword)])];
  if (keyword === 'enum') return common(listOf(a, keyword), listOf(b, keyword));
  if (keyword === 'uniqueItems') return before === true || added === true;
  if (keyword === 'prefixItems') return mergeTuple(listOf(a, keyword), listOf(b, keyword));
  if (keyword === 'not') return { anyOf: [before, added] };
  if (raised.has(keyword)) return Math.max(numberOf(a, keyword) ?? -Infinity, numberOf(b, keyword) ?? -Infinity);
  if (lowered.has(keyword)) return Math.min(numberOf(a, keyword) ?? Infinity, numberOf(b, keyword) ?? Infinity);
  return before;
}

/** Values that stand in both lists, of as many as are looked at. */
function common(a: readonly Json[], b: readonly Json[]): Json[] {
  const others = b.slice(0, comparedMax);
  return a.slice(0, comparedMax).filter(each => others.some(other => isSame(each, other)));
}

function mergeTuple(a: readonly Json[], b: readonly Json[]): Json[] {
  return Array.from({ length: Math.max(a.length, b.length) }, (_, at) => both(a[at] ?? true, b[at] ?? true));
}

/** A schema that holds where both hold, for keywords that are not structural. */
function merge(a: JsonObject, b: JsonObject): JsonObject {
  const merged = Object.entries(b).map(([keyword, value]): [string, Json] => [
    keyword,
    Object.hasOwn(a, keyword) ? mergeKeyword(a, b, keyword) : value,
  ]);
  return Object.fromEntries([...Object.entries(a), ...merged]);
}

function groupsOf(schema: JsonObject): (readonly Json[])[] {
  const { anyOf, oneOf, if: condition } = schema;
  const groups: (readonly Json[])[] = [];
  if (Array.isArray(anyOf)) groups.push(anyOf);
  if (Array.isArray(oneOf)) groups.push(oneOf);
  if (condition !== undefined) groups.push([{ allOf: [condition, schema['then'] ?? true] }, schema['else'] ?? true]);
  return groups;
}

/** Resolves references and merges `allOf`, as far as the budget goes; undefined where nothing can hold (`false`). */
export function flatten(root: Json, start: Json, budget: SchemaBudget): FlatSchema | undefined {
  const groups: (readonly Json[])[] = [];
  let merged: JsonObject = {};
  const open: Json[] = [start];
  for (let hops = 0; open.length > 0 && hops < hopsMax; hops += 1) {
    const schema = open.shift() ?? true;
    if (!budget.spend(schema)) break;
    if (schema === false) return undefined;
    if (!isObject(schema)) continue;
    merged = merge(merged, Object.fromEntries(Object.entries(schema).filter(([keyword]) => !structural.has(keyword))));
    groups.push(...groupsOf(schema));
    const reference = schema['$ref'];
    const target = typeof reference === 'string' ? follow(root, reference) : undefined;
    open.push(...(target === undefined ? [] : [target]), ...listOf(schema, 'allOf'));
  }
  return { schema: merged, groups };
}
