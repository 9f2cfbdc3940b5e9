import { type Document, isAlias, isMap, isScalar, isSeq, LineCounter, parseDocument, Scalar } from 'yaml';
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

/** The most nodes of a file. More are an attack or a mistake: aliases of aliases can grow without bound. */
const nodesMax = 200_000;
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

class SourceReader {
  readonly problems: Problem[] = [];
  readonly places = new Map<string, Place>();
  readonly #file: string;
  readonly #variables: Variables;
  readonly #lines: LineCounter;
  readonly #document: Document;
  #nodes = 0;

  constructor(file: string, text: string, variables: Variables) {
    this.#file = file;
    this.#variables = variables;
    this.#lines = new LineCounter();
    this.#document = parseDocument(text, { lineCounter: this.#lines, prettyErrors: false });
    for (const { pos, message, code } of [...this.#document.errors, ...this.#document.warnings]) {
      this.#refuse(this.#lines.linePos(pos[0]).line, [], yamlMessage(code, message));
    }
  }

  read(): YamlValue {
    if (this.problems.length > 0) return {};
    return this.#value(this.#document.contents, [], 1) ?? {};
  }

  #value(node: unknown, path: YamlPath, line: number): YamlValue {
    this.#nodes += 1;
    if (this.#nodes > nodesMax || path.length > depthMax) {
      if (this.problems.length === 0)
        this.#refuse(line, path, 'is too deep or too large; look for an alias that contains itself');
      return null;
    }
    if (isAlias(node)) return this.#value(node.resolve(this.#document), path, line);
    if (isScalar(node)) return this.#scalar(node, path, line);
    this.#place(path, line);
    if (isSeq(node))
      return node.items.map((item, index) => this.#value(item, [...path, index], this.#findLine(item, line)));
    if (isMap(node)) return this.#mapping(node.items, path, line);
    return null;
  }

  #mapping(items: readonly { key: unknown; value: unknown }[], path: YamlPath, line: number): YamlValue {
    const members: [string, YamlValue][] = [];
    for (const { key, value } of items) {
      const keyLine = this.#findLine(key, line);
      const name = isScalar(key) ? (key.source ?? String(key.value)) : undefined;
      if (name === undefined || name === '__proto__') {
        this.#refuse(keyLine, path, 'has a key that is not a plain name');
        continue;
      }
      const at = [...path, name];
      const read = this.#value(value, at, isScalar(value) ? this.#findLine(value, keyLine) : keyLine);
      // If all entries of `models:` are commented out, a key without a value remains. It counts as absent.
      if (read !== null) members.push([name, read]);
    }
    return Object.fromEntries(members);
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
  if (code === 'DUPLICATE_KEY') return 'the same key is twice in one mapping';
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
  const value = reader.read();
  const findPlace = (path: YamlPath): Place | undefined => reader.places.get(JSON.stringify(path));
  return {
    value,
    problems: reader.problems,
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
