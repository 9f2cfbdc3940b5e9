import type { ImageSize } from '../../generation/images/image-size.ts';
import { SeededRandom } from '../random.ts';

/** What a picture is painted from: the same is the same picture, to the byte. */
export interface SceneOptions {
  readonly prompt: string;
  readonly negativePrompt: string;
  readonly seed: bigint;
  readonly size: ImageSize;
  /** More steps, more detail; 1 is a blur. */
  readonly steps: number;
  /** More guidance, less haze. */
  readonly guidance: number;
  /** The colour of a reference picture as CSS writes it; undefined: the prompt's own. */
  readonly reference: string | undefined;
}

/** What the painters of a picture share. Lengths are of a canvas that is 1,000 high. */
interface Canvas {
  readonly width: number;
  readonly random: SeededRandom;
  /** CSS colours: `main` of sky and hills, `accent` of sun and sails. */
  readonly main: string;
  readonly accent: string;
  /** 0 to 1. */
  readonly detail: number;
  readonly horizon: number;
  readonly isNight: boolean;
  readonly isSea: boolean;
}

const height = 1000;
/** Words for colours that SVG knows too, so that a prompt that names one is painted in it. */
const colours =
  'red crimson orange gold yellow lime green teal turquoise cyan skyblue blue navy indigo violet purple magenta pink'.split(
    ' ',
  );
/** Words that make it night or day, sea or land; without one of them it is chance. */
const nightWords = /\b(?:night|midnight|moon|moonlit|stars?|starry|galaxy|dark|space|aurora)\b/i;
const dayWords = /\b(?:day|sunny|morning|noon|sunrise|bright|summer|beach)\b/i;
const seaWords = /\b(?:sea|ocean|beach|boats?|ships?|sail\w*|island|wav(?:e|es)|harbou?r|lake|water)\b/i;
const landWords = /\b(?:forest|trees?|woods?|hills?|mountains?|valley|meadow|field|desert|city|house|garden)\b/i;
/** From that many steps on a picture has all its detail. */
const stepsOfAll = 40;

/** How much a picture of few steps is blurred, as the sigma of a Gauss in pixels; 0: not at all. */
export function blurOf({ steps, size }: Pick<SceneOptions, 'steps' | 'size'>): number {
  const sigma = (1 - detailOf(steps)) ** 2 * 14 * (size.height / height);
  return sigma < 0.3 ? 0 : sigma;
}

function detailOf(steps: number): number {
  return Math.min(1, Math.max(1, steps) / stepsOfAll);
}

function coloursIn(text: string): string[] {
  return (text.toLowerCase().match(/[a-z]+/g) ?? []).filter(word => colours.includes(word));
}

/** Paints a landscape as SVG. Text is never drawn: it would need fonts, which differ from machine to machine. */
export function sceneSvg(options: SceneOptions): string {
  const { size, prompt, negativePrompt, seed, steps, guidance, reference } = options;
  const random = new SeededRandom(JSON.stringify([prompt, negativePrompt, String(seed)]));
  const unwanted = coloursIn(negativePrompt);
  const [named, second] = coloursIn(prompt).filter(colour => !unwanted.includes(colour));
  const left = [...colours.filter(colour => !unwanted.includes(colour)), 'grey', 'white'];
  const main = reference ?? named ?? random.pick(left);
  const canvas: Canvas = {
    width: Math.max(1, Math.round((size.width / size.height) * height)),
    random,
    main,
    accent: second ?? random.pick(left.filter(colour => colour !== main)),
    detail: detailOf(steps),
    horizon: 520 + random.below(160),
    isNight: nightWords.test(prompt) || (!dayWords.test(prompt) && random.next() < 0.25),
    isSea: seaWords.test(prompt) || (!landWords.test(prompt) && random.next() < 0.4),
  };
  const haze = `<rect width="100%" height="100%" fill="#888" opacity="${0.45 - Math.min(guidance, 20) * 0.0225}"/>`;
  const body = [sky(canvas), stars(canvas), light(canvas), ...ridges(canvas), triangles(canvas), haze].join('');
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${size.width}" height="${size.height}" viewBox="0 0 ${canvas.width} ${height}" preserveAspectRatio="none">${body}</svg>`;
}

function sky({ main, isNight }: Canvas): string {
  const [shade, top, low] = isNight ? ['#000', 0.8, 0.4] : ['#fff', 0, 0.7];
  const stop = (at: number, opacity: number): string =>
    `<stop offset="${at}" stop-color="${shade}" stop-opacity="${opacity}"/>`;
  const gradient = `<linearGradient id="s" x2="0" y2="1">${stop(0, top)}${stop(1, low)}</linearGradient>`;
  const fill = (paint: string): string => `<rect width="100%" height="100%" fill="${paint}"/>`;
  return gradient + fill(main) + fill('url(#s)');
}

function stars({ width, random, detail, horizon, isNight }: Canvas): string {
  const count = isNight ? Math.round((width / 1000) * (40 + 160 * detail)) : 0;
  const star = (): string => `<circle cx="${random.below(width)}" cy="${random.below(horizon)}" r="2" fill="#fff"/>`;
  return Array.from({ length: count }, star).join('');
}

/** Sun or moon with its halo. */
function light({ width, random, accent, horizon, isNight }: Canvas): string {
  const at = `cx="${Math.round(width * (0.18 + random.next() * 0.64))}" cy="${Math.round(horizon * (0.25 + random.next() * 0.5))}"`;
  const fill = isNight ? '#f4f1e4' : accent;
  const radius = 46 + random.below(60);
  return `<circle ${at} r="${radius * 2}" fill="${fill}" opacity=".3"/><circle ${at} r="${radius}" fill="${fill}"/>`;
}

/** Ranges from far and pale to near and dark: hills on land, waves at sea. */
function ridges({ width, random, main, detail, horizon, isNight, isSea }: Canvas): string[] {
  const layers = 3 + random.below(3);
  const pieces = 3 + Math.round(detail * 7) + (isSea ? 6 : 0);
  return Array.from({ length: layers }, (_, layer) => {
    const depth = layer / (layers - 1);
    const lift = isSea ? 36 - 26 * depth : 150 - 75 * depth;
    const base = horizon + depth * (height - horizon) * 0.72;
    const up = (): number => Math.round(base - random.next() * lift);
    let path = `M0 ${height}V${up()}`;
    for (let piece = 1; piece <= pieces; piece += 1) {
      path += `Q${Math.round(((piece - 0.5) * width) / pieces)} ${up()} ${Math.round((piece * width) / pieces)} ${up()}`;
    }
    const shade = (isNight ? 0.5 : 0.15) + depth * 0.4;
    return [`fill="${main}"`, `opacity="${shade}"`].map(look => `<path d="${path}V${height}Z" ${look}/>`).join('');
  });
}

/** What stands in the landscape: a few sails on the horizon, or many trees in front. */
function triangles({ width, random, accent, detail, horizon, isSea }: Canvas): string {
  const count = isSea ? 1 + random.below(3) : 4 + Math.round(detail * 22);
  const [fill, top, span] = isSea ? [accent, horizon, 60] : ['#0d1a10', 740, 190];
  const triangle = (): string => {
    const [x, y, tall] = [random.below(width), top + random.below(span), 60 + random.below(90)];
    const half = Math.round(tall * 0.3);
    return `<path d="M${x} ${y}l${half} ${tall}h${-2 * half}Z" fill="${fill}"/>`;
  };
  return Array.from({ length: count }, triangle).join('');
}
