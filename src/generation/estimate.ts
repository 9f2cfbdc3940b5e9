/** Bounds of a token count, estimated without a tokenizer. The real count is between the two for code, base64, and ordinary text in any writing system. */
export interface TokenEstimate {
  readonly low: number;
  readonly high: number;
}

/** Scripts for which the tokenizer (o200k_base) has few tokens. */
const classRare = 0;
const classSpace = 1;
const classDigit = 2;
const classLower = 3;
const classUpper = 4;
const classPunctuation = 5;
/** Chinese, Japanese and Korean, and other characters from U+2E80 on. */
const classWide = 6;
/** Surrogates: emoji and other characters outside the basic plane. */
const classAstral = 7;
/** Other alphabets: accented Latin, Greek, Cyrillic, Hebrew, Arabic, the scripts of India, Thai. */
const classAlphabet = 8;

/** The classes of the ASCII characters. */
const asciiClasses = Uint8Array.from({ length: 128 }, (_, code) => {
  if (code <= 32) return classSpace;
  if (code >= 48 && code <= 57) return classDigit;
  if (code >= 97 && code <= 122) return classLower;
  if (code >= 65 && code <= 90) return classUpper;
  return classPunctuation;
});

function classify(code: number): number {
  if (code < 128) return asciiClasses[code] ?? classPunctuation;
  if (code < 0xe80) return classAlphabet;
  if (code >= 0xd800 && code < 0xe000) return classAstral;
  return (code >= 0x2e80 && code < 0xfb00) || code >= 0xff00 ? classWide : classRare;
}

/** The length of the longest token of Latin letters, and of other letters, in o200k_base. */
const latinTokenLengthMax = 27;
const letterTokenLengthMax = 18;

/**
 * Returns an upper bound of the number of tokens in a run of characters of one class, by its length. The factors are the worst that were measured on prose in 12 languages, code, JSON, logs and random base64, with a margin; prose is over-estimated by about a half.
 */
function runHigh(kind: number, length: number): number {
  switch (kind) {
    case classSpace:
      return length === 1 ? 0.3 : 1.2 + length / 64;
    case classDigit:
      return Math.ceil(length / 3);
    case classLower:
      // Words are one or two tokens. Longer runs are usually not words.
      return length <= 4 ? 1.2 : length <= 12 ? 1.2 + (length - 4) * 0.2 : 1.2 + length * 0.62;
    case classUpper:
      return length * 0.85;
    case classPunctuation:
      return 1 + (length - 1) * 0.8;
    case classWide:
      return length * 2;
    case classAstral:
      return length * 1.7;
    case classAlphabet:
      return 1 + length * 0.7;
    default:
      return length * 3;
  }
}

/** Returns a lower bound of the number of tokens in a run of characters of one class. */
function runLow(kind: number, length: number): number {
  switch (kind) {
    case classDigit:
      return length / 3;
    case classLower:
    case classUpper:
      return length / latinTokenLengthMax;
    case classWide:
    case classAlphabet:
      // The factor 2 is a margin.
      return length / (2 * letterTokenLengthMax);
    default:
      return 0;
  }
}

/** Estimates the tokens of a text in one pass over its UTF-16 code units, without allocating memory. */
export function estimateTokens(text: string): TokenEstimate {
  let low = 0;
  let high = 0;
  let run = 0;
  let runClass = -1;
  let repeated = 0;
  let before = -1;
  for (let at = 0; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    const kind = classify(code);
    if (kind === runClass) {
      // "=====" is one token, so repeated punctuation adds hardly any tokens.
      if (code === before && kind === classPunctuation) repeated += 1;
      else run += 1;
    } else {
      if (run > 0) {
        low += runLow(runClass, run);
        high += runHigh(runClass, run) + repeated * 0.13;
      }
      run = 1;
      runClass = kind;
      repeated = 0;
    }
    before = code;
  }
  if (run > 0) {
    low += runLow(runClass, run);
    high += runHigh(runClass, run) + repeated * 0.13;
  }
  return { low: Math.floor(low), high: Math.ceil(high) };
}
