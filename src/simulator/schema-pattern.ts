import { createRequire } from 'node:module';
import type * as Regexpp from '@eslint-community/regexpp';

/** Spells texts that match regular expressions, without ever running one: a client's pattern could run for hours. */

/** The most characters that a pattern spells. */
const spelledMax = 1_024;
/** The most characters of a pattern that is read: the parser calls itself for every group. */
const patternMax = 1_024;
/** Candidates for the characters of a set. */
const candidates = Array.from('a7x -A0_.yzXYZ123456789,;:!?@#$%&*+=/\\|~^"\'()[]{}<>é\t\n');
const characterSets: Readonly<Record<string, RegExp>> = { any: /./, digit: /\d/, space: /\s/, word: /\w/ };

let parser: Regexpp.RegExpParser | undefined;

/** Loads the parser with the first pattern: most requests have none. */
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

/** The pattern uses more than is understood here, or its text would be too long. */
class GivenUp extends Error {}

/** Spells the first alternative; open-ended repetitions `extra` times beyond their least. */
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
      // Without the Unicode flag a reference to a group that is not there is a character in octal digits.
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

/** A character of a set: its first one if it names one, else one of the candidates. */
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
 * Returns a text that matches the pattern, with a length between the two if its repetitions allow that; undefined if
 * the pattern uses unsupported syntax.
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
    // Not a pattern, or given up; more repetitions may be too long even if fewer were not.
  }
  return best;
}
