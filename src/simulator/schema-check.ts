import { isDeepStrictEqual } from 'node:util';
import {
  type Json,
  type JsonObject,
  allowsType,
  elementSchemas,
  follow,
  isObject,
  readList,
  readMember,
  readNumber,
  readObject,
  readStrings,
  readTypes,
} from './json-schema.ts';

/** How much work may be spent on one schema, in steps of a few µs: some schemas would never finish. */
export class SchemaBudget {
  #left: number;

  constructor(steps: number) {
    this.#left = steps;
  }

  /** Takes a step for looking at a schema, and more if it has long lists; false if none is left. */
  spend(schema: Json): boolean {
    this.#left -= 1;
    if (isObject(schema)) {
      const members = Object.keys(readObject(schema, 'properties')).length;
      this.#left -= (members + readList(schema, 'enum').length + readList(schema, 'required').length) >> 4;
    }
    return this.#left >= 0;
  }

  get isSpent(): boolean {
    return this.#left <= 0;
  }
}

/**
 * Returns whether a value satisfies a schema, as far as a sampler has to know: patterns and formats count as
 * satisfied, because a client's regular expression could run for hours. If the budget ends, the rest counts as
 * satisfied.
 */
export function satisfiesSchema(root: Json, schema: Json, value: Json, budget = new SchemaBudget(20_000)): boolean {
  return new Check(root, budget).keeps(schema, value, 0);
}

class Check {
  readonly #root: Json;
  readonly #budget: SchemaBudget;

  constructor(root: Json, budget: SchemaBudget) {
    this.#root = root;
    this.#budget = budget;
  }

  keeps(schema: Json, value: Json, depth: number): boolean {
    if (!this.#budget.spend(schema) || depth > 64) return true;
    if (!isObject(schema)) return schema !== false;
    return keepsScalar(schema, value) && this.#keepsParts(schema, value, depth) && this.#combines(schema, value, depth);
  }

  #keepsParts(schema: JsonObject, value: Json, depth: number): boolean {
    if (Array.isArray(value)) return this.#keepsArray(schema, value, depth);
    return !isObject(value) || this.#keepsObject(schema, value, depth);
  }

  #keepsArray(schema: JsonObject, value: readonly Json[], depth: number): boolean {
    const { contains, uniqueItems } = schema;
    if (!isWithin(schema, 'Items', value.length) || (uniqueItems === true && hasEqual(value))) return false;
    if (contains !== undefined) {
      const count = value.filter(each => this.keeps(contains, each, depth + 1)).length;
      if (!isWithin({ minContains: 1, ...schema }, 'Contains', count)) return false;
    }
    const { first, rest } = elementSchemas(schema);
    return value.every((each, at) => this.keeps(first[at] ?? rest, each, depth + 1));
  }

  #keepsObject(schema: JsonObject, value: JsonObject, depth: number): boolean {
    const names = Object.keys(value);
    const needed = names.flatMap(name => readStrings(readObject(schema, 'dependentRequired'), name));
    if (!isWithin(schema, 'Properties', names.length)) return false;
    if (![...readStrings(schema, 'required'), ...needed].every(name => Object.hasOwn(value, name))) return false;
    const dependent = readObject(schema, 'dependentSchemas');
    if (!names.every(name => this.keeps(readMember(dependent, name) ?? true, value, depth + 1))) return false;
    const properties = readObject(schema, 'properties');
    // Names that a pattern could match are accepted, because patterns are not run.
    const others = schema['patternProperties'] === undefined ? (schema['additionalProperties'] ?? true) : true;
    return Object.entries(value).every(([name, member]) =>
      this.keeps(readMember(properties, name) ?? others, member, depth + 1),
    );
  }

  #combines(schema: JsonObject, value: Json, depth: number): boolean {
    const keeps = (each: Json): boolean => this.keeps(each, value, depth + 1);
    const { $ref: reference, anyOf, oneOf, not, if: condition } = schema;
    if (typeof reference === 'string' && !keeps(follow(this.#root, reference) ?? true)) return false;
    if (!readList(schema, 'allOf').every(keeps)) return false;
    if (Array.isArray(anyOf) && !anyOf.some(keeps)) return false;
    if (Array.isArray(oneOf) && oneOf.filter(keeps).length !== 1) return false;
    if (not !== undefined && keeps(not)) return false;
    return condition === undefined || keeps((keeps(condition) ? schema['then'] : schema['else']) ?? true);
  }
}

/** Checks the rules of a schema that apply to a value without its members. */
function keepsScalar(schema: JsonObject, value: Json): boolean {
  const { const: only = value, enum: allowed } = schema;
  if (!allowsType(readTypes(schema) ?? [typeName(value)], typeName(value)) || !isDeepStrictEqual(only, value))
    return false;
  if (Array.isArray(allowed) && !allowed.some(each => isDeepStrictEqual(each, value))) return false;
  if (typeof value === 'number') return keepsNumber(schema, value);
  return typeof value !== 'string' || isWithin(schema, 'Length', Array.from(value).length);
}

/** Returns a value's JSON Schema type; whole numbers are integers. */
function typeName(value: Json): string {
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'array';
  return Number.isInteger(value) ? 'integer' : typeof value;
}

function keepsNumber(schema: JsonObject, value: number): boolean {
  const bound = (keyword: string, none: number): number => readNumber(schema, keyword) ?? none;
  const step = bound('multipleOf', 0);
  return (
    (step <= 0 || Number.isInteger(value / step)) &&
    value >= bound('minimum', -Infinity) &&
    value <= bound('maximum', Infinity) &&
    value > bound('exclusiveMinimum', -Infinity) &&
    value < bound('exclusiveMaximum', Infinity)
  );
}

function isWithin(schema: JsonObject, what: string, count: number): boolean {
  return count >= (readNumber(schema, `min${what}`) ?? 0) && count <= (readNumber(schema, `max${what}`) ?? Infinity);
}

function hasEqual(values: readonly Json[]): boolean {
  return values.some((a, at) => values.slice(at + 1).some(b => isDeepStrictEqual(a, b)));
}
