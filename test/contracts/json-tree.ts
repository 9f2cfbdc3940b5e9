/** JSON for comparisons in tests: numbers keep all digits, members keep their order. The parser is separate from the gateway's, so that tests do not trust the code that they test. */

/** A JSON value. */
export type JsonTree =
  | { readonly kind: 'leaf'; readonly text: string }
  | { readonly kind: 'array'; readonly items: JsonTree[] }
  | { readonly kind: 'object'; readonly members: (readonly [name: string, value: JsonTree])[] };

/** Reads a text that is known to be JSON. */
export function readTree(text: string): JsonTree {
  return new Reader(text).value();
}

class Reader {
  readonly #tokens: string[];
  #at = 0;

  constructor(text: string) {
    this.#tokens = text.match(/"[^"\\]*(?:\\.[^"\\]*)*"|[{}[\],:]|[^\s{}[\],:"]+/gs) ?? [];
  }

  value(): JsonTree {
    const token = this.#next();
    if (token === '[') {
      const items: JsonTree[] = [];
      while (this.#tokens[this.#at] !== ']') {
        items.push(this.value());
        if (this.#tokens[this.#at] === ',') this.#at += 1;
      }
      this.#at += 1;
      return { kind: 'array', items };
    }
    if (token !== '{') return { kind: 'leaf', text: makeLeaf(token) };
    const members: (readonly [string, JsonTree])[] = [];
    while (this.#tokens[this.#at] !== '}') {
      const name = JSON.parse(this.#next()) as string;
      this.#at += 1;
      members.push([name.toWellFormed(), this.value()]);
      if (this.#tokens[this.#at] === ',') this.#at += 1;
    }
    this.#at += 1;
    return { kind: 'object', members };
  }

  #next(): string {
    const token = this.#tokens[this.#at];
    if (token === undefined) throw new Error('the text ends too early');
    this.#at += 1;
    return token;
  }
}

/** Normalizes a token: a string without escapes and single surrogates, a number by its value. */
function makeLeaf(token: string): string {
  if (token.startsWith('"')) return JSON.stringify((JSON.parse(token) as string).toWellFormed());
  const [, sign, whole = '', fraction = '', exponent = '0'] =
    /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/.exec(token) ?? [];
  if (sign === undefined) return token;
  const digits = `${whole}${fraction}`.replace(/^0+/, '');
  const kept = digits.replace(/0+$/, '');
  if (kept === '') return '0';
  return `${sign}${kept}e${Number(exponent) - fraction.length + digits.length - kept.length}`;
}

/** Returns the tree as JSON text. */
export function writeTree(tree: JsonTree): string {
  switch (tree.kind) {
    case 'leaf':
      return tree.text;
    case 'array':
      return `[${tree.items.map(writeTree).join(',')}]`;
    case 'object':
      return `{${tree.members.map(([name, value]) => `${JSON.stringify(name)}:${writeTree(value)}`).join(',')}}`;
  }
}

/** The path to a value in a tree: names of members and indexes. */
export type TreePath = readonly (string | number)[];

/** Returns the value at a path; undefined if there is none. */
export function treeAt(tree: JsonTree | undefined, path: TreePath): JsonTree | undefined {
  let found = tree;
  for (const step of path) {
    if (found?.kind === 'array') found = typeof step === 'number' ? found.items[step] : undefined;
    else if (found?.kind === 'object') found = found.members.find(([name]) => name === step)?.[1];
    else return undefined;
  }
  return found;
}
