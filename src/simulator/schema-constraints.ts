import {
  type Json,
  type JsonObject,
  allowsType,
  follow,
  isObject,
  readList,
  readMember,
  readNumber,
  readObject,
  readTypes,
} from './json-schema.ts';
import type { SchemaBudget } from './schema-check.ts';

/** The rules for one value. */
export interface SchemaConstraints {
  /** The schemas as given. */
  readonly schemas: readonly Json[];
  /** Schemas that the value must all satisfy: the given ones, those that they refer to, and those of their `allOf`. */
  readonly parts: readonly JsonObject[];
  /** Lists of schemas. The value must also satisfy one schema of each list. Which of them fit together shows only once there is a value. */
  readonly alternatives: readonly (readonly Json[])[];
}

/** The most references and `allOf`s that are followed for one place in a schema; more of them mean a cycle. */
const hopsMax = 64;

/** Collects what schemas demand of one value. Follows references and `allOf` as far as the budget allows. Returns undefined if no value can satisfy it (`false`). */
export function readConstraints(
  root: Json,
  schemas: readonly Json[],
  budget: SchemaBudget,
): SchemaConstraints | undefined {
  const parts: JsonObject[] = [];
  const open = [...schemas];
  for (let hops = 0; open.length > 0 && hops < hopsMax; hops += 1) {
    const schema = open.shift() ?? true;
    if (!budget.spend(schema)) break;
    if (schema === false) return undefined;
    if (!isObject(schema)) continue;
    parts.push(schema);
    const reference = schema['$ref'];
    if (typeof reference === 'string') budget.take(reference.length >> 2);
    const target = typeof reference === 'string' ? follow(root, reference) : undefined;
    open.push(...(target === undefined ? [] : [target]), ...readList(schema, 'allOf'));
  }
  return { schemas, parts, alternatives: parts.flatMap(alternativesIn) };
}

function alternativesIn(schema: JsonObject): (readonly Json[])[] {
  const { anyOf, oneOf, not, if: condition } = schema;
  const groups: (readonly Json[])[] = [anyOf, oneOf].filter(Array.isArray);
  if (condition !== undefined) groups.push([{ allOf: [condition, schema['then'] ?? true] }, schema['else'] ?? true]);
  // A schema that depends on a member is also satisfied if the member is missing.
  for (const required of Object.values(readObject(schema, 'dependentRequired'))) groups.push([{ required }, true]);
  for (const dependent of Object.values(readObject(schema, 'dependentSchemas'))) groups.push([dependent, true]);
  // `not` is not an alternative, but this makes the sampler try values until one satisfies it, as with alternatives.
  if (not !== undefined) groups.push([true]);
  return groups;
}

/** Returns the largest number that a part has for a keyword; `none` if no part has one. */
export function largest(parts: readonly JsonObject[], keyword: string, none = -Infinity): number {
  const found = parts.flatMap(part => readNumber(part, keyword) ?? []);
  return found.length === 0 ? none : Math.max(...found);
}

/** Returns the smallest number that a part has for a keyword; `none` if no part has one. */
export function smallest(parts: readonly JsonObject[], keyword: string, none = Infinity): number {
  const found = parts.flatMap(part => readNumber(part, keyword) ?? []);
  return found.length === 0 ? none : Math.min(...found);
}

/** Returns the first of the parts' values for a keyword. */
export function findFirst(parts: readonly JsonObject[], keyword: string): Json | undefined {
  return parts.map(part => readMember(part, keyword)).find(value => value !== undefined);
}

/** Returns the types that all parts allow; undefined if none names any. */
export function commonTypes(parts: readonly JsonObject[]): readonly string[] | undefined {
  const lists = parts.flatMap(part => [readTypes(part) ?? []]).filter(list => list.length > 0);
  return lists.length === 0 ? undefined : lists.flat().filter(type => lists.every(list => allowsType(list, type)));
}
