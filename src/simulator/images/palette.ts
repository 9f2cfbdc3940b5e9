import type { SeededRandom } from '../random.ts';

/** A colour as hue (degrees), saturation and lightness (percent). */
export interface Colour {
  readonly hue: number;
  readonly saturation: number;
  readonly lightness: number;
}

/** Hues in degrees, by the name of the colour. An image has the colours that its prompt names. */
const hues: Readonly<Record<string, number>> = {
  red: 4,
  crimson: 348,
  scarlet: 10,
  orange: 28,
  amber: 40,
  gold: 46,
  golden: 46,
  yellow: 54,
  lime: 82,
  green: 128,
  emerald: 150,
  teal: 176,
  turquoise: 178,
  cyan: 190,
  sky: 202,
  blue: 218,
  navy: 228,
  indigo: 244,
  violet: 264,
  purple: 276,
  magenta: 306,
  pink: 334,
  rose: 344,
};

/** Words in a prompt that decide between a night and a day scene; without any of them, chance decides. */
const nightWords = /\b(?:night|midnight|moon|moonlit|stars?|starry|galaxy|dark|space|aurora)\b/i;
const dayWords = /\b(?:day|sunny|morning|noon|sunrise|bright|summer|beach)\b/i;

/** The colours of an image. */
export interface Palette {
  /** The hue of the sky and the distant parts. */
  readonly main: number;
  /** The hue of the sun, sails and flowers. */
  readonly accent: number;
  readonly isNight: boolean;
  /** Multiplies all saturations; 1 leaves them unchanged. */
  readonly vividness: number;
}

/** Chooses a palette: by the colours that the prompt names and the negative prompt does not, else by chance. */
export function choosePalette(
  { prompt, negativePrompt, guidance }: { prompt: string; negativePrompt: string; guidance: number },
  random: SeededRandom,
): Palette {
  const named = listHues(prompt);
  const avoided = listHues(negativePrompt);
  const [first, second] = named.filter(hue => !avoided.includes(hue));
  const fallback = chooseHue(avoided, random);
  const main = first ?? fallback;
  const accentOffset = [150, 180, 210][random.below(3)] ?? 180;
  const isNight = nightWords.test(prompt) || (!dayWords.test(prompt) && random.next() < 0.25);
  return {
    main,
    accent: second ?? (main + accentOffset) % 360,
    isNight,
    vividness: 0.55 + Math.min(guidance, 20) * 0.06,
  };
}

function listHues(text: string): number[] {
  const words = text.toLowerCase().match(/[a-z]+/g) ?? [];
  return words.flatMap(word => {
    const hue = Object.hasOwn(hues, word) ? hues[word] : undefined;
    return hue === undefined ? [] : [hue];
  });
}

/** Returns a hue that is far from the avoided ones. */
function chooseHue(avoided: readonly number[], random: SeededRandom): number {
  for (let hue = random.below(360); ; hue = (hue + 47) % 360) {
    const isNear = avoided.slice(0, 3).some(other => Math.abs(((hue - other + 540) % 360) - 180) < 30);
    if (!isNear) return hue;
  }
}

/** Returns a colour as an SVG attribute's value. */
export function css({ hue, saturation, lightness }: Colour, vividness = 1): string {
  const bounded = Math.max(0, Math.min(100, saturation * vividness));
  return `hsl(${Math.round(((hue % 360) + 360) % 360)},${Math.round(bounded)}%,${Math.round(lightness)}%)`;
}
