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
  typeOf,
  typesOf,
} from './json-schema.ts';

/** How much work may be spent on one schema, in steps of a few µs: some schemas would take longer than the universe lasts. */
export class SchemaBudget {
  #left: number;

  constructor(steps: number) {
    this.#left = steps;
  }

  /** Takes a step for looking at a schema, and more where it is a long one; false where none is left. */
  spend(schema: Json): boolean {
    this.#left -= 1 + (sizeOf(schema) >> 4);
    return this.#left >= 0;
  }

  get isSpent(): boolean {
    return this.#left <= 0;
  }
}

/** How many entries a schema's longest lists have. */
function sizeOf(schema: Json): number {
  if (!isObject(schema)) return 0;
  const { enum: allowed, required, properties } = schema;
  const names = isObject(properties) ? Object.keys(properties).length : 0;
  return names + (Array.isArray(allowed) ? allowed.length : 0) + (Array.isArray(required) ? required.length : 0);
}

/**
 * Whether a value keeps a schema, as far as a sampler has to know: patterns and formats are taken as kept, because a client's
 * regular expression could run for hours. Where the budget ends, what was not looked at is taken as kept.
 */
export function keepsSchema(root: Json, schema: Json, value: Json, budget = new SchemaBudget(20_000)): boolean {
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
    if (typeof schema === 'boolean') return schema;
    if (!isObject(schema)) return true;
    const reference = schema['$ref'];
    if (typeof reference === 'string') {
      const target = follow(this.#root, reference);
      if (target !== undefined && !this.keeps(target, value, depth + 1)) return false;
    }
    return (
      this.#keepsValue(schema, value) && this.#keepsParts(schema, value, depth) && this.#combines(schema, value, depth)
    );
  }

  #keepsValue(schema: JsonObject, value: Json): boolean {
    const types = typesOf(schema);
    const type = typeOf(value);
    if (types !== undefined && !types.includes(type) && !(type === 'integer' && types.includes('number'))) return false;
    const { const: only } = schema;
    if (only !== undefined && !isSame(only, value)) return false;
    if (Array.isArray(schema['enum']) && !schema['enum'].some(each => isSame(each, value))) return false;
    if (typeof value === 'number') return keepsNumber(schema, value);
    return typeof value !== 'string' || isWithin(schema, 'Length', Array.from(value).length);
  }

  #keepsParts(schema: JsonObject, value: Json, depth: number): boolean {
    if (Array.isArray(value)) return this.#keepsArray(schema, value, depth);
    return !isObject(value) || this.#keepsObject(schema, value, depth);
  }

  #keepsArray(schema: JsonObject, value: readonly Json[], depth: number): boolean {
    if (!isWithin(schema, 'Items', value.length)) return false;
    if (schema['uniqueItems'] === true && value.some((a, at) => value.slice(at + 1).some(b => isSame(a, b))))
      return false;
    const { contains, items } = schema;
    if (contains !== undefined) {
      const count = value.filter(each => this.keeps(contains, each, depth + 1)).length;
      if (count < (numberOf(schema, 'minContains') ?? 1) || count > (numberOf(schema, 'maxContains') ?? Infinity))
        return false;
    }
    const first = Array.isArray(items) ? items : listOf(schema, 'prefixItems');
    const rest = Array.isArray(items) ? schema['additionalItems'] : items;
    return value.every((each, at) => this.keeps(first[at] ?? rest ?? true, each, depth + 1));
  }

  #keepsObject(schema: JsonObject, value: JsonObject, depth: number): boolean {
    const names = Object.keys(value);
    if (!isWithin(schema, 'Properties', names.length)) return false;
    if (!stringsOf(schema, 'required').every(name => Object.hasOwn(value, name))) return false;
    const dependent = objectOf(schema, 'dependentRequired');
    for (const name of names) {
      if (!stringsOf(dependent, name).every(each => Object.hasOwn(value, each))) return false;
      const needed = memberOf(objectOf(schema, 'dependentSchemas'), name);
      if (needed !== undefined && !this.keeps(needed, value, depth + 1)) return false;
    }
    const properties = objectOf(schema, 'properties');
    // Names that patterns could cover are let pass: patterns are not run.
    const hasPatterns = schema['patternProperties'] !== undefined;
    const others = hasPatterns ? true : (schema['additionalProperties'] ?? true);
    return Object.entries(value).every(([name, member]) =>
      this.keeps(memberOf(properties, name) ?? others, member, depth + 1),
    );
  }

  #combines(schema: JsonObject, value: Json, depth: number): boolean {
    const keeps = (each: Json): boolean => this.keeps(each, value, depth + 1);
    const { anyOf, oneOf, not, if: condition } = schema;
    if (!listOf(schema, 'allOf').every(keeps)) return false;
    if (Array.isArray(anyOf) && !anyOf.some(keeps)) return false;
    if (Array.isArray(oneOf) && oneOf.filter(keeps).length !== 1) return false;
    if (not !== undefined && keeps(not)) return false;
    return condition === undefined || keeps((keeps(condition) ? schema['then'] : schema['else']) ?? true);
  }
}

function keepsNumber(schema: JsonObject, value: number): boolean {
  const step = numberOf(schema, 'multipleOf');
  if (step !== undefined && step > 0 && !Number.isInteger(value / step)) return false;
  if (value < (numberOf(schema, 'minimum') ?? -Infinity) || value > (numberOf(schema, 'maximum') ?? Infinity))
    return false;
  return (
    value > (numberOf(schema, 'exclusiveMinimum') ?? -Infinity) &&
    value < (numberOf(schema, 'exclusiveMaximum') ?? Infinity)
  );
}

function isWithin(schema: JsonObject, what: string, count: number): boolean {
  return count >= (numberOf(schema, `min${what}`) ?? 0) && count <= (numberOf(schema, `max${what}`) ?? Infinity);
}
