import { SeededRandom } from './random.ts';

/** How much to write: a number of sentences, about a number of words, or without an end. */
export type Length = { readonly unit: 'sentences' | 'words'; readonly count: number } | { readonly unit: 'endless' };

const stopWords = new Set(
  (
    'about above after again against also always and another any are asked because been before being below between both but can cannot ' +
    'could describe detail detailed did does doing down during each essay every exactly explain few for from further generate get give ' +
    'had has have having help here hers him his how into its itself just know less let like list long make many may might more ' +
    'most much must need not now off once one only other ought our out over own paragraph paragraphs please reply respond same say ' +
    'sentence sentences shall she should show some such tell text than thank thanks that the their them then there these they this ' +
    'those three through too two under until very want was were what when where which while who whom whose why will with word words ' +
    'would write you your'
  ).split(' '),
);

/** The most characters that are read from the beginning of a text; for the requested length, also from its end. */
const readLength = 10_000;

/** Returns the words that a text is about, in order, without repetition; at most 12. */
export function findTopics(text: string): string[] {
  const topics = new Map<string, string>();
  for (const [word] of text.slice(0, readLength).matchAll(/\p{L}[\p{L}\p{M}\p{N}'’-]*/gu)) {
    const plain = word.toLowerCase();
    if (plain.length > 24 || stopWords.has(plain)) continue;
    if (plain.length < 3 && /^[\u0020-\u007f]+$/.test(plain)) continue;
    if (!topics.has(plain)) topics.set(plain, word);
    if (topics.size === 12) break;
  }
  return [...topics.values()];
}

/** Returns the beginning of a text on one line, for a quotation. It never ends inside a code point. */
export function toQuote(text: string, lengthMax = 160): string {
  const line = text.slice(0, readLength).replace(/\s+/gu, ' ').trim();
  if (line.length <= lengthMax) return line;
  const cut = line.slice(0, lengthMax).replace(/[\ud800-\udbff]$/, '');
  const space = cut.lastIndexOf(' ');
  return `${space > lengthMax / 2 ? cut.slice(0, space) : cut}…`;
}

const requestedCount =
  /\b(\d{1,3}(?:,\d{3})+|\d{1,6})[\s-]*(?:or more |random |short |long |full |complete )?(words?|sentences?|paragraphs?|tokens?|lines?|characters?|pages?|bullet points?|items?|examples?|reasons?|facts?)\b/i;
const endlessRequest =
  /\b(very long|extremely long|really long|long(est)?|lengthy|endless(ly)?|never[- ]ending|as long as|as much as|without stopping|novel|exhaustive(ly)?|keep (going|writing|talking))\b/i;
const shortRequest =
  /\b(one word|single word|one[- ]line|in one sentence|a sentence|briefly|brief|short|concise(ly)?|tl;?dr|in a few words)\b/i;
const longRequest =
  /\b(essay|story|article|report|chapter|speech|tutorial|guide|in detail|in depth|detailed|thorough(ly)?|comprehensive|poem)\b/i;

/** The number of words for one unit. */
const wordsPer: Readonly<Record<string, number>> = { word: 1, token: 0.75, character: 0.17, page: 400 };

/** Returns the length of the answer that a text requests. */
export function wishedLength(whole: string): Length {
  const text = whole.length <= 2 * readLength ? whole : `${whole.slice(0, readLength)}\n${whole.slice(-readLength)}`;
  const [, digits, unit] = requestedCount.exec(text) ?? [];
  if (digits !== undefined && unit !== undefined) {
    const count = Number(digits.replaceAll(',', ''));
    const one = unit.toLowerCase().replace(/s$/, '');
    const words = wordsPer[one];
    if (words !== undefined) return { unit: 'words', count: Math.ceil(count * words) };
    return { unit: 'sentences', count: one === 'paragraph' ? count * paragraphLength : count };
  }
  if (shortRequest.test(text)) return { unit: 'sentences', count: 1 };
  if (endlessRequest.test(text)) return { unit: 'endless' };
  if (longRequest.test(text)) return { unit: 'sentences', count: 18 };
  return { unit: 'sentences', count: 3 };
}

const paragraphLength = 5;

const sentenceTemplates: readonly ((words: Words) => string)[] = [
  ({ a, b }) => `The first thing to see about ${a} is how it depends on ${b}.`,
  ({ a, b, how }) => `${capital(how)}, ${a} and ${b} are looked at together.`,
  ({ a, b, how }) => `${capital(a)} changes ${how} when ${b} does.`,
  ({ a, how }) => `It helps to describe ${a} ${how} before judging it.`,
  ({ a, b }) => `Some would begin with ${b}, others with ${a}; both ways lead to the same place.`,
  ({ a, b, how }) => `What is said of ${a} holds ${how} for ${b} too.`,
  ({ a, thing }) => `A good ${thing} of ${a} fits on one page.`,
  ({ a, b, thing }) => `The ${thing} that joins ${a} and ${b} is easy to miss.`,
  ({ a, thing }) => `Nobody has a complete ${thing} of ${a}, and nobody needs one.`,
  ({ a, b }) => `Where ${a} ends, ${b} begins.`,
  ({ a, b, how }) => `Compare ${a} with ${b}, and do it ${how}.`,
  ({ a, how, thing }) => `Seen ${how}, ${a} is above all a ${thing}.`,
  ({ a, thing }) => `The usual ${thing} of ${a} leaves out the cost.`,
  ({ a, b, thing }) => `Take ${a} as the ${thing} and ${b} as the exception.`,
  ({ a, b }) => `If ${a} were simpler, ${b} would matter less.`,
  ({ a, how }) => `In practice ${a} is ${how} handled in small steps.`,
];

interface Words {
  readonly a: string;
  readonly b: string;
  readonly how: string;
  readonly thing: string;
}

const manners =
  'at a slow pace,with some care,in most cases,from a distance,step by step,as a rule,over the years,without much noise,in plain words,on closer reading'.split(
    ',',
  );
const things = 'summary picture model measure history sketch theory report question pattern'.split(' ');

function capital(word: string): string {
  return word.charAt(0).toUpperCase() + word.slice(1);
}

/** Yields sentences about the topics, endlessly. Each begins with a space, or, at the beginning of a paragraph, with an empty line. */
export function* sentencesAbout(topics: readonly string[], random: SeededRandom): Generator<string> {
  const subjects = topics.length > 0 ? topics : ['the matter'];
  const companions = ['its context', 'the wider view', ...topics.slice(1), ...subjects];
  for (let number = 1; ; number += 1) {
    const a = random.pick(subjects);
    const b = random.pick(companions);
    const words = { a, b: a === b ? 'everything around it' : b, how: random.pick(manners), thing: random.pick(things) };
    const separator = number % paragraphLength === 0 ? '\n\n' : ' ';
    yield separator + random.pick(sentenceTemplates)(words);
  }
}

const openings = ['You wrote', 'The message was', 'Your words were', 'The request reads'];

/** The sources of an answer's text. */
export interface ProseFacts {
  /** The last user text. */
  readonly text: string;
  /** The first sentences: about tool results, images and files. */
  readonly findings: readonly string[];
  readonly seed: string;
  /** The length; absent: the one that the text requests. */
  readonly length?: Length;
}

function countTo(text: string): string | undefined {
  const [, from = '1', to] =
    /\bcount (?:up )?(?:from (\d{1,5}) )?to (\d{1,5})\b/i.exec(text.slice(0, readLength)) ?? [];
  if (to === undefined || Number(to) < Number(from)) return undefined;
  return Array.from({ length: Number(to) - Number(from) + 1 }, (_, at) => Number(from) + at).join(', ');
}

/**
 * Yields prose that answers a text, in chunks: it states the findings, quotes the text and continues with sentences about its words.
 * If no length is set, a request to count is answered only with the numbers, and a request for one word, without findings, only with a word.
 * Equal seeds give equal prose. It is made lazily, because an answer may be long and be cancelled.
 */
export function* prose(facts: ProseFacts): Generator<string> {
  const { text, findings, seed } = facts;
  const random = new SeededRandom(seed);
  const length = facts.length ?? wishedLength(text);
  const topics = findTopics(text);
  const counted = countTo(text);
  if (counted !== undefined && facts.length === undefined) {
    yield counted;
    return;
  }
  if (/\b(one|single) word\b/i.test(text.slice(0, readLength)) && facts.length === undefined && findings.length === 0) {
    yield `${capital(random.pick([topics[0] ?? 'Yes', ...topics]))}.`;
    return;
  }
  let words = 0;
  let sentences = 0;
  const isDone = (): boolean => {
    if (length.unit === 'words') return words >= length.count;
    return length.unit === 'sentences' && sentences >= length.count;
  };
  let separator = '';
  for (const sentence of opening(text, findings, random)) {
    yield separator + sentence;
    separator = ' ';
    sentences += 1;
    words += sentence.split(' ').length;
  }
  for (const sentence of sentencesAbout(topics, random)) {
    if (isDone()) return;
    yield sentence;
    sentences += 1;
    words += sentence.split(' ').length - 1;
  }
}

function opening(text: string, findings: readonly string[], random: SeededRandom): string[] {
  if (text === '') return findings.length > 0 ? [...findings] : ['There was no text to answer.'];
  if (findings.length > 0) return [...findings, `That was for “${toQuote(text, 80)}”.`];
  return [`${random.pick(openings)}: “${toQuote(text)}”.`];
}
