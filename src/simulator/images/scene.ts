import type { ImageSize } from '../../generation/images/image-size.ts';
import { SeededRandom } from '../random.ts';
import { css, type Palette, choosePalette } from './palette.ts';

/** The input for an image. Equal inputs give exactly the same image. */
export interface SceneOptions {
  readonly prompt: string;
  readonly negativePrompt: string;
  readonly seed: bigint;
  readonly size: ImageSize;
  /** More steps give more detail; with 1 step the image is only a blur. */
  readonly steps: number;
  /** How vivid the colours are. */
  readonly guidance: number;
  /** The hue of a reference image, from which the palette is made; undefined: the prompt decides. */
  readonly referenceHue: number | undefined;
}

/** The arguments of all functions that draw parts of an image. Lengths are for a canvas with a height of 1,000. */
interface Canvas {
  readonly width: number;
  readonly random: SeededRandom;
  readonly palette: Palette;
  /** 0 to 1. */
  readonly detail: number;
  readonly horizon: number;
  readonly isSea: boolean;
}

const height = 1000;
/** How far things are drawn beyond the edges, so that no seam shows at an edge. */
const margin = 60;
/** Matches words of a prompt that make the image a sea. Without such words, chance decides between sea and land. */
const seaWords = /\b(?:sea|ocean|beach|boats?|ships?|sail\w*|island|wav(?:e|es)|harbou?r|lake|water)\b/i;
const landWords = /\b(?:forest|trees?|woods?|hills?|mountains?|valley|meadow|field|desert|city|house|garden)\b/i;
/** With this many steps an image has all its detail; more steps add none. */
const stepsOfAll = 40;

const round = (value: number): number => Math.round(value * 10) / 10;

/** Returns how much an image with few steps is blurred: the sigma of a Gaussian blur in pixels; 0: not at all. */
export function chooseBlur({ steps, size }: Pick<SceneOptions, 'steps' | 'size'>): number {
  const sigma = (1 - chooseDetail(steps)) ** 2 * 14 * (size.height / height);
  return sigma < 0.3 ? 0 : sigma;
}

function chooseDetail(steps: number): number {
  return Math.min(1, Math.max(1, steps) / stepsOfAll);
}

/** Returns a landscape as SVG. It never contains text, because fonts differ between machines. */
export function sceneSvg(options: SceneOptions): string {
  const { size, prompt, negativePrompt, seed, steps, guidance, referenceHue } = options;
  const random = new SeededRandom(JSON.stringify([prompt, negativePrompt, String(seed)]));
  const drawn = choosePalette({ prompt, negativePrompt, guidance }, random);
  const palette = referenceHue === undefined ? drawn : { ...drawn, main: referenceHue };
  const canvas: Canvas = {
    width: Math.max(1, Math.round((size.width / size.height) * height)),
    random,
    palette,
    detail: chooseDetail(steps),
    horizon: 520 + random.below(160),
    isSea: seaWords.test(prompt) || (!landWords.test(prompt) && random.next() < 0.4),
  };
  const body = [sky(canvas), stars(canvas), light(canvas), clouds(canvas), ...foreground(canvas)].join('');
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${size.width}" height="${size.height}" viewBox="0 0 ${canvas.width} ${height}" preserveAspectRatio="none">${body}</svg>`;
}

function sky({ width, palette, horizon }: Canvas): string {
  const { main, accent, isNight, vividness } = palette;
  const top = css({ hue: main, saturation: 62, lightness: isNight ? 10 : 46 }, vividness);
  const middle = css({ hue: main + 12, saturation: 58, lightness: isNight ? 22 : 68 }, vividness);
  const low = css({ hue: accent, saturation: 70, lightness: isNight ? 38 : 82 }, vividness);
  const stops = `<stop offset="0" stop-color="${top}"/><stop offset=".55" stop-color="${middle}"/><stop offset="1" stop-color="${low}"/>`;
  const around = `x="${-margin}" width="${width + 2 * margin}"`;
  const gradient = `<linearGradient id="s" x1="0" y1="0" x2="0" y2="1">${stops}</linearGradient>`;
  return `${gradient}<rect ${around} y="${-margin}" height="${horizon + 60 + margin}" fill="url(#s)"/><rect ${around} y="${horizon}" height="${height - horizon + margin}" fill="${low}"/>`;
}

function stars({ width, random, palette, detail, horizon }: Canvas): string {
  if (!palette.isNight) return '';
  let text = '';
  for (let left = Math.round((width / 1000) * (40 + 160 * detail)); left > 0; left -= 1) {
    const radius = round(0.6 + random.next() ** 3 * 2.6);
    const opacity = round(0.3 + random.next() * 0.7);
    text += `<circle cx="${random.below(width)}" cy="${random.below(horizon)}" r="${radius}" fill="#fff" opacity="${opacity}"/>`;
  }
  return text;
}

/** Returns the sun or moon, with its halo. */
function light({ width, random, palette, horizon }: Canvas): string {
  const { accent, isNight, vividness } = palette;
  const [x, y] = [
    Math.round(width * (0.18 + random.next() * 0.64)),
    Math.round(horizon * (0.25 + random.next() * 0.5)),
  ];
  const radius = 46 + random.below(60);
  const disc = isNight ? '#f4f1e4' : css({ hue: accent, saturation: 92, lightness: 72 }, vividness);
  const halo = `<radialGradient id="h"><stop offset="0" stop-color="${disc}" stop-opacity=".75"/><stop offset="1" stop-color="${disc}" stop-opacity="0"/></radialGradient>`;
  const craters = isNight ? drawCraters(random, { x, y, radius }) : '';
  return `${halo}<circle cx="${x}" cy="${y}" r="${radius * 3}" fill="url(#h)"/><circle cx="${x}" cy="${y}" r="${radius}" fill="${disc}"/>${craters}`;
}

function drawCraters(random: SeededRandom, { x, y, radius }: { x: number; y: number; radius: number }): string {
  let text = '';
  for (let left = 5; left > 0; left -= 1) {
    const [turn, away] = [random.next() * 2 * Math.PI, random.next() * 0.65 * radius];
    const size = radius * (0.06 + random.next() * 0.14);
    text += `<circle cx="${round(x + Math.cos(turn) * away)}" cy="${round(y + Math.sin(turn) * away)}" r="${round(size)}" fill="#8d8a80" opacity=".4"/>`;
  }
  return text;
}

function clouds({ width, random, palette, detail, horizon }: Canvas): string {
  const opacity = palette.isNight ? 0.08 : 0.5;
  let text = '';
  for (let left = 2 + random.below(4); left > 0; left -= 1) {
    const [x, y] = [random.below(width), 60 + random.below(Math.max(1, horizon - 220))];
    const puffs = 3 + Math.round(detail * 5);
    for (let puff = 0; puff < puffs; puff += 1) {
      const [rx, ry] = [50 + random.below(90), 14 + random.below(20)];
      text += `<ellipse cx="${x + (puff - puffs / 2) * 38}" cy="${y + random.below(24)}" rx="${rx}" ry="${ry}" fill="#fff" opacity="${opacity}"/>`;
    }
  }
  return text;
}

/** Draws ranges of hills from far to near, and objects in front of them. The prompt decides the kind of object. */
function foreground(canvas: Canvas): string[] {
  const { random } = canvas;
  const layers = 3 + random.below(3);
  const isSea = canvas.isSea;
  const parts: string[] = [];
  for (let layer = 0; layer < layers; layer += 1) {
    parts.push(ridge(canvas, layer / (layers - 1), isSea));
    if (isSea && layer === 1) parts.push(boats(canvas));
  }
  if (!isSea) parts.push(trees(canvas));
  return [...parts, birds(canvas)];
}

/** Draws a range of hills, or of waves at sea. `depth`: from 0 (far, pale) to 1 (near, dark). */
function ridge({ width, random, palette, detail, horizon }: Canvas, depth: number, isSea: boolean): string {
  const { main, isNight, vividness } = palette;
  const lift = isSea ? 26 * (1 - depth) + 10 : 150 * (1 - depth * 0.5);
  const base = horizon + depth * (height - horizon) * 0.72;
  const pieces = 3 + Math.round(detail * 7) + (isSea ? 6 : 0);
  const step = width / pieces;
  let path = `M${-margin} ${height + margin}L${-margin} ${round(base - random.next() * lift)}H0`;
  for (let piece = 0; piece < pieces; piece += 1) {
    const [end, bend] = [base - random.next() * lift, base - random.next() * lift * 1.5];
    path += `Q${round((piece + 0.5) * step)} ${round(bend)} ${round((piece + 1) * step)} ${round(end)}`;
  }
  const far = isNight ? 30 : 62;
  const fill = css(
    { hue: main + 25 - depth * 40, saturation: 34 + depth * 22, lightness: far - depth * (far - 14) },
    vividness,
  );
  return `<path d="${path}h${margin}V${height + margin}Z" fill="${fill}"/>`;
}

function trees({ width, random, palette, detail }: Canvas): string {
  const { main, vividness } = palette;
  let text = '';
  for (let left = 4 + Math.round(detail * 22); left > 0; left -= 1) {
    const [x, y, tall] = [random.below(width), 800 + random.below(190), 60 + random.below(120)];
    const fill = css({ hue: main - 20 + random.below(30), saturation: 45, lightness: 9 + random.below(12) }, vividness);
    for (let tier = 0; tier < 3; tier += 1) {
      const [top, half] = [y - tall + tier * tall * 0.24, tall * (0.14 + tier * 0.07)];
      text += `<path d="M${x} ${round(top)}l${round(half)} ${round(tall * 0.38)}h${round(-2 * half)}Z" fill="${fill}"/>`;
    }
    text += `<rect x="${x - 4}" y="${round(y - tall * 0.16)}" width="8" height="${round(tall * 0.2)}" fill="${fill}"/>`;
  }
  return text;
}

function boats({ width, random, palette, horizon }: Canvas): string {
  const sail = css({ hue: palette.accent, saturation: 85, lightness: 62 }, palette.vividness);
  let text = '';
  for (let left = 1 + random.below(3); left > 0; left -= 1) {
    const [x, y, tall] = [random.below(width), horizon + 70 + random.below(60), 60 + random.below(70)];
    const hull = round(tall * 0.55);
    text += `<path d="M${x} ${y - tall}v${round(tall * 0.92)}h${hull}Z" fill="${sail}"/><path d="M${x - 5} ${round(y - tall * 0.8)}v${round(tall * 0.72)}h${-hull * 0.7}Z" fill="#fff" opacity=".9"/>`;
    text += `<path d="M${x - hull} ${y}h${hull * 2}l${-hull * 0.4} ${round(tall * 0.2)}h${-hull * 1.2}Z" fill="#2b2430"/>`;
  }
  return text;
}

function birds({ width, random, detail, horizon, palette }: Canvas): string {
  if (palette.isNight) return '';
  let text = '';
  for (let left = Math.round(detail * (3 + random.below(7))); left > 0; left -= 1) {
    const [x, y, wing] = [random.below(width), 80 + random.below(Math.max(1, horizon - 200)), 8 + random.below(12)];
    text += `<path d="M${x - wing * 2} ${y}q${wing} ${-wing} ${wing * 2} 0q${wing} ${-wing} ${wing * 2} 0" fill="none" stroke="#1d1b26" stroke-width="3" stroke-linecap="round"/>`;
  }
  return text;
}
