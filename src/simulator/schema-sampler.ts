import {
  type Json,
  type JsonObject,
  isObject,
  isSame,
  listOf,
  memberOf,
  numberOf,
  objectOf,
  parseJson,
  stringsOf,
  typesOf,
} from './json-schema.ts';
import type { PromptValues } from './prompt-values.ts';
import { SchemaBudget, keepsSchema } from './schema-check.ts';
import { type FlatSchema, flatten } from './schema-merge.ts';
import { formattedString } from './schema-formats.ts';
import { spellPattern } from './schema-pattern.ts';

/** Members that need not be there and further elements are given up below this depth, so that recursive schemas end. */
const fullDepth = 4;
/** Below this depth even required members are no longer filled: only a schema without an end comes here. */
const depthMax = 24;
/** Values of one sample; after them only what is required. */
const valuesMax = 500;
/** Steps of work for one sample, retries and checks included: some 50 ms. */
const stepsMax = 20_000;
/** Combinations of alternatives that are tried for one value. */
const triesMax = 12;
/** The most values of an enumeration that are looked at. */
const enumeratedMax = 1_000;
/** The most elements of an array and characters of a string, whatever the schema demands. */
const elementsMax = 256;
const lengthMax = 4_096;

/** JSON text that keeps the schema, with values out of the user's text where they fit. A text that is no schema allows anything. */
export function sampleText(schemaJson: string, values: PromptValues): string {
  return JSON.stringify(sampleJson(parseJson(schemaJson) ?? true, values));
}

/**
 * A value that keeps a JSON Schema (the keywords of draft 2020-12 and 7 that say what a value is; of patterns what can be spelled without running
 * them). The same for the same schema and values. Where nothing can keep it, a value that is near.
 */
export function sampleJson(schema: Json, values: PromptValues): Json {
  return new Sampler(schema, values).sample(schema, { name: '', depth: 0 });
}

/** Where in a value the sampler is. */
interface Place {
  /** The member's name; of an element its array's. */
  readonly name: string;
  readonly depth: number;
}

class Sampler {
  readonly #root: Json;
  readonly #values: PromptValues;
  readonly #budget = new SchemaBudget(stepsMax);
  #count = 0;
  /** Which of the possible values to take; raised to get another one. */
  #variation = 0;

  constructor(root: Json, values: PromptValues) {
    this.#root = root;
    this.#values = values;
  }

  sample(schema: Json, place: Place): Json {
    this.#count += 1;
    const flat = flatten(this.#root, schema, this.#budget);
    if (flat === undefined || place.depth > depthMax || this.#budget.isSpent) return null;
    if (flat.groups.length === 0 && flat.schema['not'] === undefined) return this.#plain(flat.schema, place);
    return this.#alternatives(schema, flat, place);
  }

  get #isFrugal(): boolean {
    return this.#count > valuesMax;
  }

  #keeps(schema: Json, value: Json): boolean {
    return keepsSchema(this.#root, schema, value, this.#budget);
  }

  /** Tries combinations of alternatives until the value keeps the whole schema. */
  #alternatives(schema: Json, { schema: base, groups }: FlatSchema, place: Place): Json {
    const ordered = groups.map(group => this.#ordered(group, place));
    let nearest: Json = null;
    const variation = this.#variation;
    for (let attempt = 0; attempt < triesMax; attempt += 1) {
      let index = attempt + (place.depth < fullDepth ? variation : 0);
      const chosen = ordered.map(group => {
        const branch = group[index % Math.max(1, group.length)] ?? true;
        index = Math.floor(index / Math.max(1, group.length));
        return branch;
      });
      // Once round: what is tried again must differ in its values.
      this.#variation = variation + index;
      const { not: _, ...rest } = base;
      const value = this.sample({ allOf: [rest, ...chosen] }, { name: place.name, depth: place.depth + 1 });
      this.#variation = variation;
      if (this.#keeps(schema, value)) return value;
      if (attempt === 0) nearest = value;
      if (this.#budget.isSpent) break;
    }
    return nearest;
  }

  /** In the schema's order, null last; deep inside those first that end soonest. */
  #ordered(group: readonly Json[], place: Place): readonly Json[] {
    const isDeep = place.depth >= fullDepth || this.#isFrugal;
    const cost = (branch: Json): number => {
      const flat = flatten(this.#root, branch, this.#budget);
      if (flat === undefined) return 9;
      const types = typesOf(flat.schema) ?? [];
      if (!isDeep) return types.length === 1 && types[0] === 'null' ? 1 : 0;
      if (flat.groups.length > 0) return 4;
      if (types.includes('object')) return stringsOf(flat.schema, 'required').length > 0 ? 5 : 2;
      return types.includes('array') ? 1 + (numberOf(flat.schema, 'minItems') ?? 0) : 0;
    };
    return group
      .map(branch => ({ branch, cost: cost(branch) }))
      .toSorted((a, b) => a.cost - b.cost)
      .map(each => each.branch);
  }

  #plain(schema: JsonObject, place: Place): Json {
    if (schema['const'] !== undefined) return schema['const'];
    if (Array.isArray(schema['enum'])) return this.#enumerated(schema, schema['enum']);
    const { default: preset } = schema;
    if (preset !== undefined && this.#variation === 0 && !isObject(preset) && this.#keeps(schema, preset))
      return preset;
    switch (this.#typeFor(schema)) {
      case 'object':
        return this.#object(schema, place);
      case 'array':
        return this.#array(schema, place);
      case 'integer':
        return this.#number(schema, true);
      case 'number':
        return this.#number(schema, false);
      case 'boolean':
        return this.#variation % 2 === 0;
      case 'null':
        return null;
      default:
        return this.#string(schema, place);
    }
  }

  #enumerated(schema: JsonObject, allowed: readonly Json[]): Json {
    const { enum: _, ...rest } = schema;
    const kept = allowed.slice(0, enumeratedMax).filter(each => this.#keeps(rest, each));
    const mentioned = kept.find(each => typeof each === 'string' && this.#values.mentions(each));
    if (mentioned !== undefined && this.#variation === 0) return mentioned;
    return kept[this.#variation % Math.max(1, kept.length)] ?? null;
  }

  /** The first type that is not null; where none is named, what the other keywords speak of. */
  #typeFor(schema: JsonObject): string {
    const types = typesOf(schema);
    if (types !== undefined) return types.find(type => type !== 'null') ?? 'null';
    const has = (...keywords: string[]): boolean => keywords.some(keyword => schema[keyword] !== undefined);
    if (has('properties', 'required', 'additionalProperties', 'minProperties', 'patternProperties')) return 'object';
    if (has('items', 'prefixItems', 'minItems', 'uniqueItems', 'contains')) return 'array';
    return has('minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum', 'multipleOf') ? 'number' : 'string';
  }

  #object(schema: JsonObject, { depth }: Place): Json {
    const properties = objectOf(schema, 'properties');
    const required = stringsOf(schema, 'required');
    const isFull = depth < fullDepth && !this.#isFrugal;
    const most = numberOf(schema, 'maxProperties') ?? Infinity;
    const names = new Set(required);
    for (const name of isFull ? Object.keys(properties) : []) {
      if (names.size < most && properties[name] !== false) names.add(name);
    }
    let extra: Json = {};
    for (const name of names) {
      for (const each of stringsOf(objectOf(schema, 'dependentRequired'), name)) names.add(each);
      const dependent = memberOf(objectOf(schema, 'dependentSchemas'), name);
      if (dependent !== undefined) extra = { allOf: [extra, dependent] };
    }
    if (isObject(extra) && extra['allOf'] !== undefined) {
      const { dependentSchemas: _, ...rest } = schema;
      return this.sample({ allOf: [rest, extra, { required: [...names] }] }, { name: '', depth: depth + 1 });
    }
    this.#addNames(schema, names, most);
    const members = Array.from(names, (name): [string, Json] => [
      name,
      this.sample(memberSchema(schema, name), { name, depth: depth + 1 }),
    ]);
    return Object.fromEntries(members);
  }

  /** Invents members where an object needs more than its schema names. */
  #addNames(schema: JsonObject, names: Set<string>, most: number): void {
    const least = Math.min(numberOf(schema, 'minProperties') ?? 0, most, elementsMax);
    for (const name of Object.keys(objectOf(schema, 'properties'))) if (names.size < least) names.add(name);
    const [pattern] = Object.keys(objectOf(schema, 'patternProperties'));
    const isClosed = schema['additionalProperties'] === false;
    for (let number = 1; names.size < least && number <= elementsMax; number += 1) {
      const spelled = pattern === undefined ? undefined : spellPattern(pattern, number);
      if (spelled !== undefined) names.add(spelled);
      if (!isClosed) names.add(this.#inventedName(schema, number));
    }
  }

  #inventedName(schema: JsonObject, number: number): string {
    const rule = objectOf(schema, 'propertyNames');
    const { pattern } = rule;
    const spelled = typeof pattern === 'string' ? spellPattern(pattern, number) : undefined;
    return spelled ?? fitLength(`field${number}`, rule, number);
  }

  #array(schema: JsonObject, { name, depth }: Place): Json {
    const { items } = schema;
    const first = Array.isArray(items) ? items : listOf(schema, 'prefixItems');
    const rest = (Array.isArray(items) ? schema['additionalItems'] : items) ?? true;
    const { contains } = schema;
    const needed = contains === undefined ? 0 : (numberOf(schema, 'minContains') ?? 1);
    const least = Math.max(numberOf(schema, 'minItems') ?? 0, needed);
    const most = Math.min(numberOf(schema, 'maxItems') ?? Infinity, rest === false ? first.length : Infinity);
    const usual = depth < fullDepth && !this.#isFrugal ? Math.max(first.length, depth < 2 ? 2 : 1) : 0;
    const count = Math.min(Math.max(least, Math.min(usual, most)), elementsMax);
    const variation = this.#variation;
    const elements: Json[] = [];
    for (let at = 0; at < count; at += 1) {
      const plain = first[at] ?? rest;
      const element = contains !== undefined && at < needed ? { allOf: [contains, plain] } : plain;
      const value = this.#element(schema, element, elements, { name, depth: depth + 1 });
      if (value === undefined && at >= least) break;
      elements.push(value ?? null);
    }
    this.#variation = variation;
    return elements;
  }

  /** The next element; undefined where every one that was tried is already there and must not be twice. */
  #element(schema: JsonObject, element: Json, before: readonly Json[], place: Place): Json | undefined {
    const isUnique = schema['uniqueItems'] === true;
    for (let tries = 0; tries < triesMax * 2; tries += 1) {
      const value = this.sample(element, place);
      if (before.length > 0 || isUnique) this.#variation += 1;
      if (!isUnique || !before.some(each => isSame(each, value))) return value;
    }
    return undefined;
  }

  #number(schema: JsonObject, isWhole: boolean): number {
    const step = numberOf(schema, 'multipleOf') ?? (isWhole ? 1 : 0);
    const allowed = (value: number): boolean => (!isWhole || Number.isInteger(value)) && this.#keeps(schema, value);
    const fromText = this.#variation === 0 ? this.#values.number(allowed) : undefined;
    if (fromText !== undefined) return fromText;
    const low = numberOf(schema, 'minimum') ?? numberOf(schema, 'exclusiveMinimum');
    const high = numberOf(schema, 'maximum') ?? numberOf(schema, 'exclusiveMaximum');
    const start = low ?? (high !== undefined && high < 1 ? high - 10 : 1);
    const span = low !== undefined && high !== undefined ? high - low : 10;
    const stride = step > 0 ? step : Math.min(1, span / 8);
    const first = step > 0 ? Math.ceil(start / step) : start / (stride === 0 ? 1 : stride);
    for (let tried = 0; tried < 200; tried += 1) {
      const value = (first + this.#variation + tried) * (stride === 0 ? 1 : stride);
      if (allowed(value)) return value;
    }
    for (const value of [start, low ?? 0, high ?? 0, first * stride]) if (allowed(value)) return value;
    return isWhole ? Math.ceil(start) : start;
  }

  #string(schema: JsonObject, { name }: Place): string {
    const { pattern, format } = schema;
    const least = Math.min(numberOf(schema, 'minLength') ?? 0, lengthMax);
    const most = Math.min(numberOf(schema, 'maxLength') ?? lengthMax, lengthMax);
    if (typeof pattern === 'string') {
      const spelled = spellPattern(pattern, least + this.#variation, most);
      if (spelled !== undefined) return spelled;
    }
    const formatted = typeof format === 'string' ? formattedString(format, this.#values, this.#variation) : undefined;
    if (formatted !== undefined) return formatted;
    const [example] = stringsOf(schema, 'examples');
    const found = this.#values.string(name) ?? example ?? this.#values.topic() ?? (name === '' ? 'text' : name);
    return fitLength(found, schema, this.#variation);
  }
}

/** What holds for a member: its own schema, that of its pattern, or that of all others. */
function memberSchema(schema: JsonObject, name: string): Json {
  const own = memberOf(objectOf(schema, 'properties'), name);
  if (own !== undefined) return own;
  const patterns = Object.entries(objectOf(schema, 'patternProperties'));
  const covering = patterns.find(([pattern]) => spellsName(pattern, name));
  return covering?.[1] ?? schema['additionalProperties'] ?? true;
}

function spellsName(pattern: string, name: string): boolean {
  return spellPattern(pattern, Array.from(name).length) === name;
}

/** A text of the allowed length; `variation` above 0 makes another text of it. */
function fitLength(text: string, schema: JsonObject, variation: number): string {
  const least = Math.min(numberOf(schema, 'minLength') ?? 0, lengthMax);
  const most = Math.min(numberOf(schema, 'maxLength') ?? lengthMax, lengthMax);
  const mark = variation === 0 ? '' : ` ${variation + 1}`;
  const characters = Array.from(text).slice(0, Math.max(0, most - mark.length));
  while (characters.length + mark.length < least) characters.push(...Array.from(characters.length === 0 ? 'x' : text));
  const full = characters.join('') + mark;
  const letters = Array.from(full);
  return letters.length > most ? letters.slice(letters.length - most).join('') : full;
}
