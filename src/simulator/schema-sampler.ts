import {
  type Json,
  type JsonObject,
  elementSchemas,
  isObject,
  readList,
  readMember,
  readObject,
  parseJson,
  readStrings,
} from './json-schema.ts';
import type { PromptValues } from './prompt-values.ts';
import { SchemaBudget, isEqual, satisfiesSchema } from './schema-check.ts';
import {
  type SchemaConstraints,
  commonTypes,
  findFirst,
  largest,
  readConstraints,
  smallest,
} from './schema-constraints.ts';
import { formattedString } from './schema-formats.ts';
import { generateMatch } from './schema-pattern.ts';

/** From this depth on, optional members and extra elements are left out, so that recursive schemas end. */
const fullDepth = 4;
/** Beyond this depth even required members are null: only an infinitely recursive schema gets this deep. */
const depthMax = 24;
/** Once a sample has more values than this, only required ones are added. */
const valuesMax = 500;
/** Steps of work for one sample, with its retries and checks: about 15 ms. */
const stepsMax = 6_000;
/** How many combinations of alternatives are tried for one value. */
const triesMax = 12;
/** How many values of an enumeration are considered. */
const enumeratedMax = 1_000;
/** The most elements of an array and the most characters of a string, whatever the schema demands. */
const elementsMax = 256;
const lengthMax = 4_096;
/** Steps of the budget for splitting a name into words, in addition to one for each of its characters. */
const stepsPerName = 32;
/** Steps of the budget for each character of a pattern. */
const stepsPerPatternCharacter = 8;

/**
 * Returns JSON text that satisfies the schema, with values from the user's text if they fit. A text that is not a
 * schema allows anything.
 */
export function sampleText(schemaJson: string, values: PromptValues): string {
  return JSON.stringify(sampleJson(parseJson(schemaJson) ?? true, values));
}

/**
 * Returns a value that satisfies a JSON Schema (the keywords of drafts 2020-12 and 7 that constrain values; `pattern` only if a matching text
 * can be generated without executing the regular expression). Equal arguments give equal results. If no satisfying value is found, returns a close one.
 */
export function sampleJson(schema: Json, values: PromptValues): Json {
  return new Sampler(schema, values).sample([schema], { name: '', depth: 0 });
}

/** A position in the value being sampled. */
interface Place {
  /** The member's name; an element has the name of its array. */
  readonly name: string;
  readonly depth: number;
}

type Parts = readonly JsonObject[];

class Sampler {
  readonly #root: Json;
  readonly #values: PromptValues;
  readonly #budget = new SchemaBudget(stepsMax);
  #count = 0;
  /** Which of several possible values to take: another number gives another value. */
  #variation = 0;

  constructor(root: Json, values: PromptValues) {
    this.#root = root;
    this.#values = values;
  }

  /** Returns a value that satisfies all the schemas. */
  sample(schemas: readonly Json[], place: Place): Json {
    return this.#fill(readConstraints(this.#root, schemas, this.#budget), place);
  }

  #fill(constraints: SchemaConstraints | undefined, place: Place): Json {
    this.#count += 1;
    if (constraints === undefined || place.depth > depthMax || this.#budget.isSpent) return null;
    return constraints.alternatives.length === 0
      ? this.#plain(constraints.parts, place)
      : this.#alternatives(constraints, place);
  }

  /** Returns true if only required values are to be sampled: deep inside the value, or if it is already large. */
  #isFrugal(depth: number): boolean {
    return depth >= fullDepth || this.#count > valuesMax;
  }

  #satisfies(schemas: readonly Json[], value: Json): boolean {
    return schemas.every(schema => satisfiesSchema(this.#root, schema, value, this.#budget));
  }

  /** Tries combinations of alternatives until the value satisfies everything. If none does, returns the value of the first combination. */
  #alternatives({ schemas, parts, alternatives }: SchemaConstraints, place: Place): Json {
    const ordered = alternatives.map(group => this.#ordered(group, place));
    let fallback: Json = null;
    const variation = this.#variation;
    for (let attempt = 0; attempt < triesMax; attempt += 1) {
      let index = attempt + (place.depth < fullDepth ? variation : 0);
      const chosen = ordered.map(group => {
        const branch = group[index % Math.max(1, group.length)] ?? true;
        index = Math.floor(index / Math.max(1, group.length));
        return branch;
      });
      // Once all combinations have been used, the rest of the index varies the values.
      this.#variation = variation + index;
      const more = readConstraints(this.#root, chosen, this.#budget);
      const combined = more === undefined ? undefined : { ...more, parts: [...parts, ...more.parts] };
      const value = this.#fill(combined, { name: place.name, depth: place.depth + 1 });
      this.#variation = variation;
      if (this.#satisfies(schemas, value)) return value;
      if (attempt === 0) fallback = value;
      if (this.#budget.isSpent) break;
    }
    return fallback;
  }

  /** Returns the alternatives in the schema's order, null last. If only required values are sampled, those that need the least depth come first. */
  #ordered(group: readonly Json[], { depth }: Place): readonly Json[] {
    const isFrugal = this.#isFrugal(depth);
    // A lower rank needs less depth; 9: no value can satisfy it.
    const depthRank = (branch: Json): number => {
      const constraints = readConstraints(this.#root, [branch], this.#budget);
      if (constraints === undefined) return 9;
      const types = commonTypes(constraints.parts) ?? [];
      if (!isFrugal) return types.length === 1 && types[0] === 'null' ? 1 : 0;
      if (constraints.alternatives.length > 0) return 4;
      if (types.includes('object')) return findFirst(constraints.parts, 'required') === undefined ? 2 : 5;
      return types.includes('array') ? 1 + largest(constraints.parts, 'minItems', 0) : 0;
    };
    return group
      .map(branch => ({ branch, rank: depthRank(branch) }))
      .toSorted((a, b) => a.rank - b.rank)
      .map(each => each.branch);
  }

  #plain(parts: Parts, place: Place): Json {
    const only = findFirst(parts, 'const');
    if (only !== undefined) return only;
    const partWithEnum = parts.find(part => Array.isArray(part['enum']));
    if (partWithEnum !== undefined) return this.#pickFromEnum(parts, partWithEnum);
    const preset = findFirst(parts, 'default');
    if (preset !== undefined && this.#variation === 0 && !isObject(preset) && this.#satisfies(parts, preset))
      return preset;
    switch (typeFor(parts)) {
      case 'object':
        return this.#object(parts, place);
      case 'array':
        return this.#array(parts, place);
      case 'integer':
        return this.#number(parts, true);
      case 'number':
        return this.#number(parts, false);
      case 'boolean':
        return this.#variation % 2 === 0;
      case 'null':
        return null;
      default:
        return this.#string(parts, place);
    }
  }

  #pickFromEnum(parts: Parts, partWithEnum: JsonObject): Json {
    const { enum: _, ...rest } = partWithEnum;
    const others = parts.map(part => (part === partWithEnum ? rest : part));
    const allowed = readList(partWithEnum, 'enum').slice(0, enumeratedMax);
    const kept = allowed.filter(each => this.#satisfies(others, each));
    const mentioned = kept.find(each => typeof each === 'string' && this.#mentions(each));
    if (mentioned !== undefined && this.#variation === 0) return mentioned;
    return kept[this.#variation % Math.max(1, kept.length)] ?? null;
  }

  /** Returns whether the user's text contains a word or phrase; false if the budget is spent. */
  #mentions(phrase: string): boolean {
    this.#budget.take(this.#values.searchOperations(phrase));
    return !this.#budget.isSpent && this.#values.mentions(phrase);
  }

  #object(parts: Parts, { depth }: Place): Json {
    const known = parts.flatMap(part => Object.keys(readObject(part, 'properties')));
    const most = smallest(parts, 'maxProperties');
    const names = new Set(parts.flatMap(part => readStrings(part, 'required')));
    for (const name of this.#isFrugal(depth) ? [] : known) {
      if (names.size < most && !this.#memberSchemas(parts, name).includes(false)) names.add(name);
    }
    const least = Math.min(largest(parts, 'minProperties', 0), most, elementsMax);
    for (const name of this.#furtherNames(parts, known)) {
      if (names.size >= least || this.#budget.isSpent) break;
      names.add(name);
    }
    const members = Array.from(names, (name): [string, Json] => [
      name,
      this.#budget.isSpent ? null : this.sample(this.#memberSchemas(parts, name), { name, depth: depth + 1 }),
    ]);
    return Object.fromEntries(members);
  }

  #array(parts: Parts, { name, depth }: Place): Json {
    const elements = parts.map(elementSchemas);
    const contained = parts.flatMap(part => part['contains'] ?? []);
    const needed = contained.length === 0 ? 0 : largest(parts, 'minContains', 1);
    const least = Math.max(largest(parts, 'minItems', 0), needed);
    const fixedLengths = elements.flatMap(({ first, rest }) => (rest === false ? [first.length] : []));
    const most = Math.min(smallest(parts, 'maxItems'), ...fixedLengths);
    const named = Math.max(...elements.map(({ first }) => first.length));
    const usual = this.#isFrugal(depth) ? 0 : Math.max(named, depth < 2 ? 2 : 1);
    const count = Math.min(Math.max(least, Math.min(usual, most)), elementsMax);
    const isUnique = parts.some(part => part['uniqueItems'] === true);
    const variation = this.#variation;
    const values: Json[] = [];
    for (let at = 0; at < count; at += 1) {
      const plain = elements.map(({ first, rest }) => first[at] ?? rest);
      const place = { name, depth: depth + 1 };
      const value = this.#element(at < needed ? [...contained, ...plain] : plain, place, isUnique ? values : undefined);
      if (value === undefined && at >= least) break;
      values.push(value ?? null);
      // The variation rises only from element 1 on: at variation 0 values may come from the user's text, which gives another number or name each time.
      if (at > 0 || isUnique) this.#variation += 1;
    }
    this.#variation = variation;
    return values;
  }

  /** Returns an element that differs from all `others`; undefined if no try gave one. */
  #element(schemas: readonly Json[], place: Place, others: readonly Json[] = []): Json | undefined {
    for (let tries = 0; tries < triesMax * 2; tries += 1) {
      const value = this.sample(schemas, place);
      if (this.#budget.isSpent || !others.some(each => isEqual(each, value, this.#budget))) return value;
      this.#variation += 1;
    }
    return undefined;
  }

  /** Returns a number that satisfies the parts, taken from the user's text if one there fits. If none is found, returns a close one. */
  #number(parts: Parts, isInteger: boolean): number {
    const allowed = (value: number): boolean =>
      (!isInteger || Number.isInteger(value)) && this.#satisfies(parts, value);
    const fromText = this.#variation === 0 ? this.#values.number(allowed) : undefined;
    if (fromText !== undefined) return fromText;
    const low = Math.max(largest(parts, 'minimum'), largest(parts, 'exclusiveMinimum'));
    const high = Math.min(smallest(parts, 'maximum'), smallest(parts, 'exclusiveMaximum'));
    const start = low > -Infinity ? low : high < 1 ? high - 10 : 1;
    const step = largest(parts, 'multipleOf', isInteger ? 1 : 0);
    const stride = step > 0 ? step : Math.min(1, (high - low) / 8) || 1;
    const first = step > 0 ? Math.ceil(start / step) : start / stride;
    for (let tried = 0; tried < 200; tried += 1) {
      const value = (first + this.#variation + tried) * stride;
      if (allowed(value)) return value;
    }
    return [start, high, first * stride].find(allowed) ?? (isInteger ? Math.ceil(start) : start);
  }

  #string(parts: Parts, { name }: Place): string {
    const matching = this.#textForPattern(parts, this.#variation);
    if (matching !== undefined) return matching;
    const format = findFirst(parts, 'format');
    const formatted = typeof format === 'string' ? formattedString(format, this.#values, this.#variation) : undefined;
    if (formatted !== undefined) return formatted;
    const [example] = parts.flatMap(part => readStrings(part, 'examples'));
    this.#budget.take(stepsPerName + name.length);
    const found = this.#values.string(name) ?? example ?? this.#values.topic() ?? (name === '' ? 'text' : name);
    const text = fitLength(found, parts, this.#variation);
    this.#budget.take(text.length >> 2);
    return text;
  }

  /** Returns the schemas of a member: for each part the schema of the property, else of the first matching pattern, else `additionalProperties`. */
  #memberSchemas(parts: Parts, name: string): Json[] {
    this.#budget.take(parts.length);
    return parts.map(
      part =>
        readMember(readObject(part, 'properties'), name) ??
        this.#patternSchema(part, name) ??
        part['additionalProperties'] ??
        true,
    );
  }

  #patternSchema(part: JsonObject, name: string): Json | undefined {
    const patterns = Object.entries(readObject(part, 'patternProperties'));
    return patterns.find(
      ([pattern]) => this.#match(pattern, [Array.from(name.slice(0, lengthMax)).length]) === name,
    )?.[1];
  }

  /** Yields names for an object that needs more members: those that its schema names, then invented ones. */
  *#furtherNames(parts: Parts, known: readonly string[]): Generator<string> {
    yield* known;
    const [pattern] = parts.flatMap(part => Object.keys(readObject(part, 'patternProperties')));
    const isClosed = parts.some(part => part['additionalProperties'] === false);
    const rules = parts.map(part => readObject(part, 'propertyNames'));
    for (let number = 1; number <= elementsMax; number += 1) {
      const matching = pattern === undefined ? undefined : this.#match(pattern, [number]);
      if (matching !== undefined) yield matching;
      if (!isClosed) yield this.#textForPattern(rules, number) ?? fitLength(`field${number}`, rules, number);
    }
  }

  /** Returns a text that matches the parts' pattern; undefined if they have none for which a text can be generated. */
  #textForPattern(parts: Parts, variation: number): string | undefined {
    const pattern = findFirst(parts, 'pattern');
    if (typeof pattern !== 'string') return undefined;
    const [least, most] = lengthBounds(parts);
    return this.#match(pattern, [least + variation, most]);
  }

  #match(pattern: string, lengths: readonly [least: number, most?: number]): string | undefined {
    if (this.#budget.isSpent) return undefined;
    this.#budget.take(pattern.length * stepsPerPatternCharacter);
    return generateMatch(pattern, ...lengths);
  }
}

const typeByKeyword: readonly (readonly [type: string, keywords: readonly string[]])[] = [
  ['object', ['properties', 'required', 'additionalProperties', 'minProperties', 'patternProperties']],
  ['array', ['items', 'prefixItems', 'minItems', 'uniqueItems', 'contains']],
  ['number', ['minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum', 'multipleOf']],
];

/** Returns the first common type that is not null; if no type is given, the type that the other keywords imply. */
function typeFor(parts: Parts): string | undefined {
  const types = commonTypes(parts);
  if (types !== undefined) return types.find(type => type !== 'null') ?? 'null';
  return typeByKeyword.find(([, keywords]) => keywords.some(each => findFirst(parts, each) !== undefined))?.[0];
}

function lengthBounds(parts: Parts): readonly [least: number, most: number] {
  return [Math.min(largest(parts, 'minLength', 0), lengthMax), smallest(parts, 'maxLength', lengthMax)];
}

/** Cuts or pads a text to the allowed length; a `variation` above 0 gives a different text. */
function fitLength(text: string, parts: Parts, variation: number): string {
  const [least, most] = lengthBounds(parts);
  const mark = variation === 0 ? '' : ` ${variation + 1}`;
  const start = Array.from(text.slice(0, 2 * lengthMax));
  const characters = start.slice(0, Math.max(0, most - mark.length));
  const filler = start.length === 0 ? ['x'] : start;
  while (characters.length + mark.length < least) characters.push(...filler);
  const full = [...characters, ...Array.from(mark)];
  return full.slice(Math.max(0, full.length - most)).join('');
}
