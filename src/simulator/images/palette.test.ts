import { expect, test } from 'vitest';
import { SeededRandom } from '../random.ts';
import { choosePalette } from './palette.ts';

test('neither a hue that the negative prompt names nor one close to it is chosen', () => {
  for (let seed = 0; seed < 200; seed += 1) {
    const { main } = choosePalette(
      { prompt: 'a boat', negativePrompt: 'nothing green', guidance: 5 },
      new SeededRandom(`${seed}`),
    );
    expect(Math.abs(main - 128)).toBeGreaterThanOrEqual(30);
  }
});
