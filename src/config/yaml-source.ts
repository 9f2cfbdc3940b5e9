import {
  type Alias,
  type Document,
  isAlias,
  isMap,
  isScalar,
  isSeq,
  LineCounter,
  type Node,
  parseDocument,
  Scalar,
  visit,
} from 'yaml';
import type { Problem } from './config-error.ts';
import type { Variables } from './env.ts';

/** A number of the file, with its digits as written, because prices must not be converted to floating point. */
export class NumberText {
  readonly text: string;
  readonly value: number;

  constructor(text: string, value: number) {
    this.text = text;
    this.value = value;
  }
}

/** A value of the file, with mappings and lists as in JavaScript, and numbers as their text. A key whose value is null is left out. */
export type YamlValue = string | boolean | null | NumberText | YamlValue[] | { [key: string]: YamlValue };

/** The names of members and the indexes of list entries that lead to a value. */
export type YamlPath = readonly (string | number)[];

/** A parsed file, and where in the text its values are. */
export interface YamlSource {
  readonly value: YamlValue;
  readonly problems: readonly Problem[];
  /** True if the text is not YAML, so that nothing in it can be checked. */
  readonly isBroken: boolean;
  /** Returns the line of a value, from 1. If it does not exist, returns that of the nearest value that would contain it. */
  findLine(path: YamlPath): number;
  /**
   * Returns a value as an error may show it; undefined if it is not a scalar, is long, or came from an environment
   * variable.
   */
  findPrintableValue(path: YamlPath): string | undefined;
}

interface Place {
  readonly line: number;
  readonly printable: string | undefined;
}

/** The most nodes of a file. More are an attack or a mistake. */
const nodesMax = 200_000;
/** The most nodes that all aliases together stand for: aliases of aliases can grow without bound. */
const aliasedMax = 10_000;
const depthMax = 32;
const shownLengthMax = 60;

/** Returns a path as text, for example `models[0].pricing.input`. */
export function pathText(path: YamlPath): string {
  return path.reduce<string>((text, step) => {
    if (typeof step === 'number') return `${text}[${step}]`;
    const name = /^[\w-]+$/.test(step) ? step : JSON.stringify(step);
    return text === '' ? name : `${text}.${name}`;
  }, '');
}

/** Where a node is. */
interface At {
  readonly path: YamlPath;
  readonly line: number;
  /** True if an alias stands for it or for what it is in. */
  readonly isAliased: boolean;
}

class SourceReader {
  readonly problems: Problem[] = [];
  readonly places = new Map<string, Place>();
  readonly #file: string;
  readonly #variables: Variables;
  readonly #lines: LineCounter;
  readonly #document: Document;
  /** The node that each alias stands for; undefined: none has been read yet. */
  #targets: ReadonlyMap<Alias, Node> | undefined;
  #nodes = 0;
  #aliased = 0;

  constructor(file: string, text: string, variables: Variables) {
    this.#file = file;
    this.#variables = variables;
    this.#lines = new LineCounter();
    // The parser compares each key of a mapping with all others; `#mapping` finds repeated keys with a set.
    this.#document = parseDocument(text, { lineCounter: this.#lines, prettyErrors: false, uniqueKeys: false });
    const [first, ...more] = [...this.#document.errors, ...this.#document.warnings];
    if (first === undefined) return;
    // Only the first: a slip such as a bracket that is not closed makes an error of each line after it.
    const others = more.length === 0 ? '' : ` (${more.length} more errors of syntax may follow from it)`;
    this.#refuse(this.#lines.linePos(first.pos[0]).line, [], yamlMessage(first.code, first.message) + others);
  }

  read(): YamlValue {
    if (this.problems.length > 0) return {};
    return this.#value(this.#document.contents, { path: [], line: 1, isAliased: false }) ?? {};
  }

  #value(node: unknown, at: At): YamlValue {
    const { path, line, isAliased } = at;
    this.#nodes += 1;
    if (isAliased) this.#aliased += 1;
    if (this.#nodes > nodesMax || this.#aliased > aliasedMax || path.length > depthMax) {
      if (this.problems.length === 0)
        this.#refuse(line, path, 'is too deep or too large; look for an alias that contains itself');
      return null;
    }
    if (isAlias(node)) return this.#value(this.#target(node), { path, line, isAliased: true });
    if (isScalar(node)) return this.#scalar(node, path, line);
    this.#place(path, line);
    if (isSeq(node)) {
      return node.items.map((item, index) =>
        this.#value(item, { path: [...path, index], line: this.#findLine(item, line), isAliased }),
      );
    }
    return isMap(node) ? this.#mapping(node.items, at) : null;
  }

  #mapping(items: readonly { key: unknown; value: unknown }[], { path, line, isAliased }: At): YamlValue {
    const members: [string, YamlValue][] = [];
    const names = new Set<string>();
    for (const { key, value } of items) {
      const keyLine = this.#findLine(key, line);
      const name = isScalar(key) ? (key.source ?? String(key.value)) : undefined;
      if (name === undefined || name === '__proto__') {
        this.#refuse(keyLine, path, 'has a key that is not a plain name');
        continue;
      }
      if (names.has(name)) this.#refuse(keyLine, [], 'the same key is twice in one mapping');
      names.add(name);
      const valueLine = isScalar(value) ? this.#findLine(value, keyLine) : keyLine;
      const read = this.#value(value, { path: [...path, name], line: valueLine, isAliased });
      // If all entries of `models:` are commented out, a key without a value remains. It counts as absent.
      if (read !== null) members.push([name, read]);
    }
    return Object.fromEntries(members);
  }

  /** Returns the last node before the alias that has its anchor. All are found in one pass: the parser's own look-up reads the whole document for each alias. */
  #target(alias: Alias): Node | undefined {
    if (this.#targets === undefined) {
      const anchors = new Map<string, Node>();
      const targets = new Map<Alias, Node>();
      visit(this.#document, {
        Node: (_, node) => {
          const target = isAlias(node) ? anchors.get(node.source) : undefined;
          if (isAlias(node) && target !== undefined) targets.set(node, target);
          else if (!isAlias(node) && node.anchor !== undefined) anchors.set(node.anchor, node);
        },
      });
      this.#targets = targets;
    }
    return this.#targets.get(alias);
  }

  #scalar(node: Scalar, path: YamlPath, line: number): YamlValue {
    const { value, source = '' } = node;
    if (typeof value === 'string' && value.includes('${')) {
      this.#place(path, line);
      const text = this.#expanded(value, path, line);
      return node.type === Scalar.PLAIN ? typed(text) : text;
    }
    const text = typeof value === 'string' ? value : source;
    this.#place(path, line, text.length > shownLengthMax ? undefined : JSON.stringify(text));
    if (typeof value === 'number') return new NumberText(source, value);
    return typeof value === 'string' || typeof value === 'boolean' ? value : null;
  }

  /** Reads `${NAME}` from the environment; `$${` is a literal `${`. */
  #expanded(text: string, path: YamlPath, line: number): string {
    return text.replaceAll(/\$\$\{|\$\{([^}]*)(\}?)/g, (found: string, name: string | undefined, brace: string) => {
      if (name === undefined) return '${';
      if (brace === '' || !/^[A-Za-z_]\w*$/.test(name)) {
        this.#refuse(
          line,
          path,
          'must have the name of an environment variable between ${ and }; write $${ for a literal ${',
        );
        return found;
      }
      const value = Object.hasOwn(this.#variables, name) ? this.#variables[name] : undefined;
      if (value !== undefined) return value;
      this.#refuse(line, path, `reads the environment variable ${name}, which is not set`);
      return found;
    });
  }

  #findLine(node: unknown, otherwise: number): number {
    const range = isScalar(node) || isMap(node) || isSeq(node) || isAlias(node) ? node.range : undefined;
    return range == null ? otherwise : this.#lines.linePos(range[0]).line;
  }

  #place(path: YamlPath, line: number, shown?: string): void {
    this.places.set(JSON.stringify(path), { line, printable: shown });
  }

  #refuse(line: number, path: YamlPath, message: string): void {
    this.problems.push({ file: this.#file, line, path: pathText(path), message });
  }
}

/** Replaces the parser's message if ours is more useful to an operator. */
function yamlMessage(code: string, message: string): string {
  if (code === 'MULTIPLE_DOCS') return 'must be one YAML document, without a second ---';
  return `is not valid YAML: ${message}`;
}

/** Returns the value that a plain scalar has after `${NAME}` was replaced with its text. */
function typed(text: string): YamlValue {
  if (text === 'true' || text === 'false') return text === 'true';
  return /^[-+]?\d+(\.\d+)?$/.test(text) ? new NumberText(text, Number(text)) : text;
}

/** Returns the variables that a text names as `${NAME}`, even in comments. */
export function variableNames(text: string): string[] {
  return Array.from(text.matchAll(/\$\{([A-Za-z_]\w*)\}/g), ([, name = '']) => name);
}

/** Reads a YAML text. Problems of syntax and of `${NAME}` are returned, not thrown. If the syntax is wrong, the value is empty. */
export function readYaml(file: string, text: string, variables: Variables): YamlSource {
  const reader = new SourceReader(file, text, variables);
  const isBroken = reader.problems.length > 0;
  const value = reader.read();
  const findPlace = (path: YamlPath): Place | undefined => reader.places.get(JSON.stringify(path));
  return {
    value,
    problems: reader.problems,
    isBroken,
    findPrintableValue: path => findPlace(path)?.printable,
    findLine: path => {
      for (let length = path.length; length >= 0; length -= 1) {
        const place = findPlace(path.slice(0, length));
        if (place !== undefined) return place.line;
      }
      return 1;
    },
  };
}
