import { createRequire } from 'node:module';
import type * as Regexpp from '@eslint-community/regexpp';

/** Makes texts that match regular expressions, without ever executing one, because a client's pattern could run for hours. */

/** The most characters of a text that is made for a pattern. */
const spelledMax = 1_024;
/** The most characters of a pattern. Longer ones are not parsed, because the parser is recursive. */
const patternMax = 1_024;
/** Characters that are tried for a set of characters. */
const candidates = Array.from('a7x -A0_.yzXYZ123456789,;:!?@#$%&*+=/\\|~^"\'()[]{}<>é\t\n');
const characterSets: Readonly<Record<string, RegExp>> = { any: /./, digit: /\d/, space: /\s/, word: /\w/ };

let parser: Regexpp.RegExpParser | undefined;

/** Loads the parser when the first pattern comes, because most requests have none. */
function loadParser(): Regexpp.RegExpParser {
  const require = createRequire(import.meta.url);
  const { RegExpParser } = require('@eslint-community/regexpp') as typeof Regexpp;
  return new RegExpParser();
}

/** Parses a pattern as JSON Schema requires (Unicode), else as browsers do. Throws the parser's error. */
function parse(pattern: string): Regexpp.AST.Pattern {
  parser ??= loadParser();
  try {
    return parser.parsePattern(pattern, 0, pattern.length, { unicode: true });
  } catch {
    return parser.parsePattern(pattern, 0, pattern.length);
  }
}

/** Thrown if the pattern uses syntax that is not supported here, or its text would be too long. */
class GivenUp extends Error {}

/** Makes a text for the first alternative. Repetitions without an upper bound are made `extra` times more than their minimum. */
function spellFirst([first]: readonly Regexpp.AST.Alternative[], extra: number): string {
  let text = '';
  for (const element of first?.elements ?? []) {
    text += spell(element, extra);
    if (text.length > spelledMax) throw new GivenUp();
  }
  return text;
}

function spell(node: Regexpp.AST.Element, extra: number): string {
  switch (node.type) {
    case 'Character':
      // Without the Unicode flag, a reference to a group that does not exist is an octal escape.
      if (/^\\[1-9]/.test(node.raw)) throw new GivenUp();
      return String.fromCodePoint(node.value);
    case 'CharacterSet':
    case 'CharacterClass':
      return spellSet(node);
    case 'Group':
    case 'CapturingGroup':
      return spellFirst(node.alternatives, extra);
    case 'Quantifier':
      return repeat(node, extra);
    case 'Assertion':
      if (node.kind === 'lookahead' || node.kind === 'lookbehind') throw new GivenUp();
      return '';
    default:
      throw new GivenUp();
  }
}

function repeat({ element, min, max }: Regexpp.AST.Quantifier, extra: number): string {
  const count = min === max ? min : Math.min(max, Math.max(min, max === Infinity ? 1 : min) + extra);
  const unit = spell(element, extra);
  if (count * unit.length > spelledMax) throw new GivenUp();
  return unit.repeat(count);
}

/** Returns a character of a set: the first one that it names, else one of the candidates. */
function spellSet(set: Regexpp.AST.CharacterSet | Regexpp.AST.CharacterClass): string {
  const [first] = set.type === 'CharacterClass' && !set.negate ? set.elements : [];
  if (first?.type === 'Character') return String.fromCodePoint(first.value);
  if (first?.type === 'CharacterClassRange') return String.fromCodePoint(first.min.value);
  const found = candidates.find(each => isIn(set, each));
  if (found === undefined) throw new GivenUp();
  return found;
}

function isIn(
  set: Regexpp.AST.CharacterSet | Regexpp.AST.CharacterClass | Regexpp.AST.CharacterClassElement,
  character: string,
): boolean {
  const code = character.codePointAt(0) ?? 0;
  switch (set.type) {
    case 'Character':
      return set.value === code;
    case 'CharacterClassRange':
      return set.min.value <= code && code <= set.max.value;
    case 'CharacterSet': {
      const members = characterSets[set.kind];
      if (members === undefined) throw new GivenUp();
      return members.test(character) !== ('negate' in set && set.negate);
    }
    case 'CharacterClass':
      return set.elements.some(each => isIn(each, character)) !== set.negate;
    default:
      throw new GivenUp();
  }
}

/**
 * Returns a text that matches the pattern; undefined if the pattern uses unsupported syntax. Its length is between
 * `lengthMin` and `lengthMax` if the repetitions of the pattern allow it.
 */
export function generateMatch(pattern: string, lengthMin = 0, lengthMax = spelledMax): string | undefined {
  if (pattern.length > patternMax) return undefined;
  let best: string | undefined;
  try {
    const { alternatives } = parse(pattern);
    for (const extra of [0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64]) {
      const text = spellFirst(alternatives, extra);
      const length = Array.from(text).length;
      if (best === undefined || length <= lengthMax) best = text;
      if (length >= lengthMin) break;
    }
  } catch {
    // The pattern is invalid or not supported, or this number of repetitions is too long.
  }
  return best;
}
