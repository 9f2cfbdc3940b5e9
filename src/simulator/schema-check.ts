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

/** How many operations count as one step. An operation, such as reading an entry of a list, takes a fraction of a µs, a step a few µs. */
const operationsOfStep = 16;
/** Keywords of a schema whose values are lists, and those whose values are objects with an entry for each name. */
const listKeywords = ['enum', 'required', 'allOf', 'anyOf', 'oneOf', 'prefixItems', 'items'] as const;
const namedKeywords = ['properties', 'patternProperties', 'dependentRequired', 'dependentSchemas'] as const;

/** How much work may be done for one schema, in steps of a few µs. Without it, some schemas would never finish. */
export class SchemaBudget {
  #left: number;

  constructor(steps: number) {
    this.#left = steps * operationsOfStep;
  }

  /** Takes a step for reading a schema, and more if it has long members. Returns false if the budget is spent. */
  spend(schema: Json): boolean {
    this.#left -= operationsOfStep + (isObject(schema) ? countEntries(schema) : 0);
    return this.#left >= 0;
  }

  /** Takes a number of operations for other work. */
  take(operations: number): void {
    this.#left -= operations;
  }

  get isSpent(): boolean {
    return this.#left <= 0;
  }
}

function countEntries(schema: JsonObject): number {
  let count = 0;
  for (const keyword of listKeywords) count += readList(schema, keyword).length;
  for (const keyword of namedKeywords) {
    const named = readMember(schema, keyword);
    if (isObject(named)) count += Object.keys(named).length;
  }
  return count;
}

/** Returns whether two values are equal. Once the budget is spent, the rest counts as equal. */
export function isEqual(a: Json, b: Json, budget: SchemaBudget): boolean {
  budget.take(typeof a === 'string' ? 1 + (a.length >> 6) : 1);
  if (a === b || budget.isSpent) return true;
  if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) return false;
  if (Array.isArray(a) || Array.isArray(b)) {
    const areArrays = Array.isArray(a) && Array.isArray(b) && a.length === b.length;
    return areArrays && a.every((each, at) => isEqual(each, b[at] ?? null, budget));
  }
  const names = Object.keys(a);
  budget.take(names.length);
  if (names.length !== Object.keys(b).length) return false;
  return names.every(name => Object.hasOwn(b, name) && isEqual(a[name] ?? null, b[name] ?? null, budget));
}

/**
 * Returns whether a value satisfies a schema, as far as the sampler needs to know. Patterns and formats count as satisfied,
 * because a client's regular expression could run for hours. Once the budget is spent, the rest counts as satisfied.
 */
export function satisfiesSchema(root: Json, schema: Json, value: Json, budget = new SchemaBudget(20_000)): boolean {
  return new Check(root, budget).satisfies(schema, value, 0);
}

class Check {
  readonly #root: Json;
  readonly #budget: SchemaBudget;

  constructor(root: Json, budget: SchemaBudget) {
    this.#root = root;
    this.#budget = budget;
  }

  satisfies(schema: Json, value: Json, depth: number): boolean {
    if (!this.#budget.spend(schema) || depth > 64) return true;
    if (!isObject(schema)) return schema !== false;
    return (
      satisfiesScalar(schema, value, this.#budget) &&
      this.#satisfiesParts(schema, value, depth) &&
      this.#combines(schema, value, depth)
    );
  }

  #satisfiesParts(schema: JsonObject, value: Json, depth: number): boolean {
    if (Array.isArray(value)) return this.#satisfiesArray(schema, value, depth);
    return !isObject(value) || this.#satisfiesObject(schema, value, depth);
  }

  #satisfiesArray(schema: JsonObject, value: readonly Json[], depth: number): boolean {
    const { contains, uniqueItems } = schema;
    if (!isWithin(schema, 'Items', value.length) || (uniqueItems === true && hasEqual(value, this.#budget)))
      return false;
    if (contains !== undefined) {
      const count = value.filter(each => this.satisfies(contains, each, depth + 1)).length;
      if (!isWithin({ minContains: 1, ...schema }, 'Contains', count)) return false;
    }
    const { first, rest } = elementSchemas(schema);
    return value.every((each, at) => this.satisfies(first[at] ?? rest, each, depth + 1));
  }

  #satisfiesObject(schema: JsonObject, value: JsonObject, depth: number): boolean {
    const names = Object.keys(value);
    const needed = names.flatMap(name => readStrings(readObject(schema, 'dependentRequired'), name));
    this.#budget.take(names.length + needed.length);
    if (!isWithin(schema, 'Properties', names.length)) return false;
    if (![...readStrings(schema, 'required'), ...needed].every(name => Object.hasOwn(value, name))) return false;
    const dependent = readObject(schema, 'dependentSchemas');
    if (!names.every(name => this.satisfies(readMember(dependent, name) ?? true, value, depth + 1))) return false;
    const properties = readObject(schema, 'properties');
    // Names that a pattern could match are accepted, because patterns are not executed.
    const others = schema['patternProperties'] === undefined ? (schema['additionalProperties'] ?? true) : true;
    return Object.entries(value).every(([name, member]) =>
      this.satisfies(readMember(properties, name) ?? others, member, depth + 1),
    );
  }

  #combines(schema: JsonObject, value: Json, depth: number): boolean {
    const keeps = (each: Json): boolean => this.satisfies(each, value, depth + 1);
    const { $ref: reference, anyOf, oneOf, not, if: condition } = schema;
    if (typeof reference === 'string' && !keeps(follow(this.#root, reference) ?? true)) return false;
    if (!readList(schema, 'allOf').every(keeps)) return false;
    if (Array.isArray(anyOf) && !anyOf.some(keeps)) return false;
    if (Array.isArray(oneOf) && oneOf.filter(keeps).length !== 1) return false;
    if (not !== undefined && keeps(not)) return false;
    return condition === undefined || keeps((keeps(condition) ? schema['then'] : schema['else']) ?? true);
  }
}

/** Checks the rules of a schema for a value, except those for its members. */
function satisfiesScalar(schema: JsonObject, value: Json, budget: SchemaBudget): boolean {
  const { const: only = value, enum: allowed } = schema;
  if (!allowsType(readTypes(schema) ?? [typeName(value)], typeName(value)) || !isEqual(only, value, budget))
    return false;
  if (Array.isArray(allowed) && !allowed.some(each => isEqual(each, value, budget))) return false;
  if (typeof value === 'number') return keepsNumber(schema, value);
  return typeof value !== 'string' || hasAllowedLength(schema, value, budget);
}

/** Checks the length of a text. Counts its characters only if necessary: each takes one or two UTF-16 units. */
function hasAllowedLength(schema: JsonObject, text: string, budget: SchemaBudget): boolean {
  const least = readNumber(schema, 'minLength') ?? 0;
  const most = readNumber(schema, 'maxLength') ?? Infinity;
  const unitsMin = Math.ceil(text.length / 2);
  if (unitsMin > most || text.length < least) return false;
  if (unitsMin >= least && text.length <= most) return true;
  budget.take(text.length >> 4);
  const count = countCharacters(text);
  return count >= least && count <= most;
}

function countCharacters(text: string): number {
  let count = 0;
  for (let at = 0; at < text.length; at += 1) {
    if (text.charCodeAt(at) >= 0xd800 && (text.codePointAt(at) ?? 0) > 0xffff) at += 1;
    count += 1;
  }
  return count;
}

/** Returns the JSON Schema type of a value; `integer` for whole numbers. */
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

function hasEqual(values: readonly Json[], budget: SchemaBudget): boolean {
  for (const [at, a] of values.entries()) {
    for (let other = at + 1; other < values.length; other += 1) {
      if (budget.isSpent) return false;
      if (isEqual(a, values[other] ?? null, budget)) return true;
    }
  }
  return false;
}
