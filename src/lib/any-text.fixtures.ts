/** Texts for property tests. `fast-check` has the same (`unit: 'binary'`, `webUrl`), but their first use makes a table of all characters, which takes a second of processor time and 100 MB in each process. */
import fc from 'fast-check';

const firstSurrogate = 0xd800;
const surrogateCount = 0x800;

/** Any character of Unicode. No halves of surrogate pairs. */
export const anyCharacter: fc.Arbitrary<string> = fc
  .nat({ max: 0x10_ffff - surrogateCount })
  .map(number => String.fromCodePoint(number < firstSurrogate ? number : number + surrogateCount), toNumber);

/** Returns the number of a character, so that `fast-check` can shorten a text, and mixes in names such as `__proto__`. Throws if the value is not one character. */
function toNumber(value: unknown): number {
  const code = typeof value === 'string' ? value.codePointAt(0) : undefined;
  if (code === undefined || String.fromCodePoint(code) !== value) throw new Error('not one character');
  if (code < firstSurrogate) return code;
  if (code < firstSurrogate + surrogateCount) throw new Error('half of a pair');
  return code - surrogateCount;
}

/** Texts of any characters. */
export function anyCharacters(
  limits: { readonly minLength?: number; readonly maxLength?: number } = {},
): fc.Arbitrary<string> {
  return fc.string({ unit: anyCharacter, ...limits });
}

const ofSegment = fc.oneof(
  { weight: 9, arbitrary: fc.constantFrom(...Array.from("abcxyzABCXYZ0189-._~!$&'()*+,;=:@")) },
  { weight: 1, arbitrary: anyCharacter.map(encodeURIComponent) },
);

/** Addresses with http or https, a domain and a path. */
export const webUrls: fc.Arbitrary<string> = fc
  .tuple(fc.constantFrom('http', 'https'), fc.domain(), fc.array(fc.string({ unit: ofSegment }), { maxLength: 4 }))
  .map(([scheme, domain, path]) => `${scheme}://${[domain, ...path].join('/')}`);
