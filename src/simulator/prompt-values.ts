import { toQuote, findTopics } from './prose.ts';

function wordSet(words: string): ReadonlySet<string> {
  return new Set(words.split(' '));
}

const sentenceStarters = wordSet(
  'a an the i you he she it we they what which who whom whose when where why how is are was were do does did can could will would shall should may ' +
    'might must please tell get show find give make write call use look check compare search list book send create add set run say explain describe ' +
    'weather hello hi hey thanks thank ok okay yes no and or but if then also today tomorrow yesterday now my your our their in on at for to of from ' +
    'convert calculate compute translate summarize summarise return answer let’s let',
);

/** Splits a member's name into words: "cityName", "city_name" and "city-name" give "city" and "name". */
export function splitName(name: string): string[] {
  const spaced = name.slice(0, searchedLength).replace(/([\p{Ll}\p{N}])(\p{Lu})/gu, '$1 $2');
  return spaced
    .toLowerCase()
    .split(/[^\p{L}\p{N}]+/u)
    .filter(word => word !== '');
}

const namePattern =
  /\p{Lu}[\p{L}\p{M}'’.-]*(?: (?:de|da|del|la|of|the|von|van) (?=\p{Lu})| (?=\p{Lu})|[\p{L}\p{M}'’.-])*/gu;

/**
 * Returns the names in a text: runs of capitalised words ("New York"), without words that are capitalised only because they begin
 * a sentence. A single word at the beginning of a sentence counts only if there is no other name.
 */
function namesIn(text: string): string[] {
  const names = new Set<string>();
  const initial = new Set<string>();
  for (const found of text.matchAll(namePattern)) {
    const words = found[0].replace(/[.’'-]+$/u, '').split(' ');
    const isStart = /(?:^|[.!?:\n])\s*$/.test(text.slice(Math.max(0, found.index - 8), found.index));
    const count = words.length;
    while (words.length > 0 && sentenceStarters.has((words[0] ?? '').toLowerCase().replace(/['’]s$/u, '')))
      words.shift();
    const name = words.join(' ').replace(/['’]s$/u, '');
    if (name === '') continue;
    if (isStart && count === 1) initial.add(name);
    else names.add(name);
  }
  return names.size > 0 ? [...names] : [...initial];
}

function matches(text: string, pattern: RegExp): string[] {
  return Array.from(text.matchAll(pattern), found => found[1] ?? found[0]);
}

const namelike = wordSet(
  'city location place timezone zone country region state town village capital destination origin from to name person user customer company product title author ' +
    'airport station stock ticker symbol brand team artist subject topic entity recipient language source target',
);
const phraselike = wordSet(
  'query q text question prompt message input content search request description command body instruction instructions term terms keyword keywords ' +
    'phrase sentence note notes comment task pattern value',
);
const answerlike = wordSet(
  'answer summary explanation reasoning reason result conclusion response reply thought analysis',
);
const codelike = wordSet('id code number no order ticket invoice reference key sku account identifier');
const expressionlike = wordSet('expression formula equation calculation math expr');

/** The patterns that are searched for in a text. None of them matches an empty text. */
const patterns = {
  email: /[\w.+-]{1,64}@[\w-]{1,63}\.[\w.-]{1,63}/,
  url: /https?:\/\/[^\s"'<>)]+/,
  date: /\d{4}-\d{2}-\d{2}/,
  day: /\b(today|tomorrow|yesterday|(?:mon|tues|wednes|thurs|fri|satur|sun)day)\b/i,
  time: /\b\d{1,2}:\d{2}\b/,
  expression: /\(?-?\d[\d.]{0,20}(?:\s{0,3}[-+*/^×÷x]\s{0,3}[-(]{0,4}\d[\d.)]{0,24})+/,
  code: /(?<![\p{L}\d])(?:\p{Lu}{1,6}[-_]?)?\d[\p{L}\d-]{0,30}/u,
  quoted: /(?<![\p{L}\d])["“«‘']([^"”»’'\n]{2,200})["”»’'](?![\p{L}\d])/u,
};

/** How many characters of a text are searched, because names and numbers are usually near its beginning. */
const searchedLength = 4_000;

/** Finds values for arguments in a user's text. It returns each name and number once, in order, and begins again when all have been used. */
export class PromptValues {
  readonly #text: string;
  readonly #lowerCase: string;
  readonly #names: readonly string[];
  readonly #numbers: readonly number[];
  readonly #topics: readonly string[];
  /** The first match of each pattern that was searched for; '' if there is none. */
  readonly #found = new Map<RegExp, string>();
  #nextName: number;
  #nextNumber = 0;
  #quote: string | undefined;

  /** `skip`: how many names other calls of the same answer have already used. */
  constructor(text: string, skip = 0) {
    this.#text = text.slice(0, searchedLength).trim();
    this.#lowerCase = this.#text.toLowerCase();
    const after = matches(this.#text, /\b(?:in|for|at|of|to|from|near|about|named|called) (\p{L}[\p{L}\p{M}-]{2,})/gu);
    const names = namesIn(this.#text);
    this.#names = names.length > 0 ? names : after.filter(word => !sentenceStarters.has(word.toLowerCase()));
    this.#numbers = matches(this.#text, /(?<![\p{L}\d_.-])-?\d{1,15}(?:\.\d{1,10})?(?![\p{L}\d_])/gu).map(Number);
    this.#topics = findTopics(this.#text);
    this.#nextName = skip;
  }

  /** The names in the text. */
  get names(): readonly string[] {
    return this.#names;
  }

  /** Returns a string from the text that fits a member called `name`; undefined if there is none. */
  string(name: string): string | undefined {
    const words = splitName(name);
    const hasWordOf = (set: ReadonlySet<string>): boolean => words.some(word => set.has(word));
    if (words.includes('email')) return this.#first(patterns.email);
    if (words.some(word => word === 'url' || word === 'uri' || word === 'link')) return this.#first(patterns.url);
    if (words.includes('date') || words.includes('day')) return this.#first(patterns.date) ?? this.#first(patterns.day);
    if (words.includes('time')) return this.#first(patterns.time);
    if (hasWordOf(expressionlike)) return this.#first(patterns.expression) ?? this.phrase();
    if (hasWordOf(codelike)) return this.#first(patterns.code) ?? this.#name();
    if (hasWordOf(answerlike))
      return this.#topics.length === 0 ? undefined : `It is about ${this.#topics.slice(0, 4).join(', ')}.`;
    if (hasWordOf(namelike)) return this.#name();
    return hasWordOf(phraselike) ? this.phrase() : undefined;
  }

  /** Returns the quoted part of the text, or the whole text if nothing is quoted, on one line. */
  phrase(): string | undefined {
    const quoted = this.#first(patterns.quoted);
    if (quoted !== undefined) return quoted;
    if (this.#text === '') return undefined;
    this.#quote ??= toQuote(this.#text, 200);
    return this.#quote;
  }

  /** Returns a word that the text is about; undefined if there is none. */
  topic(): string | undefined {
    return this.#topics[0];
  }

  /** Returns whether the text has a word or phrase, ignoring case. */
  mentions(phrase: string): boolean {
    if (phrase === '' || phrase.length > 2 * this.#lowerCase.length) return false;
    return this.#lowerCase.includes(phrase.toLowerCase());
  }

  /** Returns how many operations of a `SchemaBudget` a search for a phrase takes: it may be compared at every position of the text. */
  searchOperations({ length }: string): number {
    return length > 2 * this.#lowerCase.length ? 1 : 1 + ((length * this.#lowerCase.length) >> 9);
  }

  /** Returns the next number in the text that is allowed; undefined if there is none. */
  number(isAllowed: (value: number) => boolean): number | undefined {
    for (let tried = 0; tried < this.#numbers.length; tried += 1) {
      const value = this.#numbers[this.#nextNumber % this.#numbers.length];
      this.#nextNumber += 1;
      if (value !== undefined && isAllowed(value)) return value;
    }
    return undefined;
  }

  #name(): string | undefined {
    const name = this.#names[this.#nextName % Math.max(1, this.#names.length)];
    this.#nextName += 1;
    return name ?? this.topic();
  }

  /** Returns the first match of a pattern. Each pattern is searched for only once, because a schema can have thousands of members. */
  #first(pattern: RegExp): string | undefined {
    let found = this.#found.get(pattern);
    if (found === undefined) {
      const match = pattern.exec(this.#text);
      found = match?.[1] ?? match?.[0] ?? '';
      this.#found.set(pattern, found);
    }
    return found === '' ? undefined : found;
  }
}
