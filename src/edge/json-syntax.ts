/** Finds the position of a syntax error in JSON, which `JSON.parse` does not always report. Source: RFC 8259. */

/** A syntax error and its position. */
export interface SyntaxProblem {
  /** The line, from 1. */
  readonly line: number;
  /** The column, from 1, in UTF-16 units. */
  readonly column: number;
  /** The expected kind of value ("a value"). */
  readonly expected: string;
}

type Expectation = 'value' | 'value or ]' | 'key' | 'key or }' | 'colon' | 'comma or end' | 'nothing';

const described: Readonly<Record<Expectation, string>> = {
  value: 'a value',
  'value or ]': 'a value or “]”',
  key: 'a double-quoted member name',
  'key or }': 'a double-quoted member name or “}”',
  colon: '“:”',
  'comma or end': '“,” or the end of the object or array',
  nothing: 'the end of the body',
};
const whitespace = /[ \t\n\r]*/y;
const literal = /true|false|null|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
const numberBegun = /-(?![\d])|-?(?:0|[1-9]\d*)(?:\.\d*)?(?:(?<=\d)[eE][+-]?\d*)?/y;

/** Returns the first syntax error of `text`, which `JSON.parse` must have refused. */
export function findSyntaxProblem(text: string): SyntaxProblem {
  const { at, expected } = scan(text);
  const before = text.slice(0, at);
  const line = before.split('\n').length;
  return { line, column: at - before.lastIndexOf('\n'), expected };
}

function scan(text: string): { at: number; expected: string } {
  const open: string[] = [];
  let expect: Expectation = 'value';
  let at = 0;
  for (;;) {
    at = matchEnd(whitespace, text, at) ?? at;
    const char = text.charAt(at);
    const refused = { at, expected: described[expect] };
    const closer = open.at(-1) === '{' ? '}' : ']';
    if (char === closer && (expect === 'comma or end' || expect === 'value or ]' || expect === 'key or }')) {
      open.pop();
      expect = open.length === 0 ? 'nothing' : 'comma or end';
      at += 1;
    } else if (expect === 'comma or end' || expect === 'colon') {
      if (char !== (expect === 'colon' ? ':' : ',')) return refused;
      expect = expect === 'comma or end' && open.at(-1) === '{' ? 'key' : 'value';
      at += 1;
    } else if (char === '"' && expect !== 'nothing') {
      const end = stringEnd(text, at);
      if (end.problem !== undefined) return { at: end.at, expected: end.problem };
      at = end.at;
      expect = isKey(expect) ? 'colon' : after(open);
    } else if (expect !== 'value' && expect !== 'value or ]') {
      return refused;
    } else if (char === '{' || char === '[') {
      open.push(char);
      expect = char === '{' ? 'key or }' : 'value or ]';
      at += 1;
    } else {
      const end = matchEnd(literal, text, at);
      const begun = matchEnd(numberBegun, text, at) ?? at;
      if (begun > (end ?? at)) return { at: begun, expected: 'a digit' };
      if (end === undefined) return refused;
      at = end;
      expect = after(open);
    }
  }
}

function isKey(expect: Expectation): boolean {
  return expect === 'key' || expect === 'key or }';
}

function after(open: readonly string[]): Expectation {
  return open.length === 0 ? 'nothing' : 'comma or end';
}

function matchEnd(pattern: RegExp, text: string, at: number): number | undefined {
  pattern.lastIndex = at;
  return pattern.test(text) ? pattern.lastIndex : undefined;
}

const escape = /["\\/bfnrt]|u[0-9a-fA-F]{4}/y;
const escapeBegun = /u[0-9a-fA-F]*/y;

/** Returns the position after the string that begins at `from`, or the position of the error in it. */
function stringEnd(text: string, from: number): { at: number; problem?: string } {
  let at = from + 1;
  while (at < text.length) {
    const code = text.charCodeAt(at);
    if (code === 0x22) return { at: at + 1 };
    if (code < 0x20) return { at, problem: 'no raw control character in a string (escape it)' };
    if (code === 0x5c) {
      const end = matchEnd(escape, text, at + 1);
      if (end === undefined) return { at: matchEnd(escapeBegun, text, at + 1) ?? at + 1, problem: 'a valid escape' };
      at = end;
    } else {
      at += 1;
    }
  }
  return { at, problem: '“"” at the end of the string' };
}
