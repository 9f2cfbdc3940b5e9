import sharp from 'sharp';
import { describe, expect, test } from 'vitest';
import { type Item, ItemSchema, Role } from '../gen/tollgate/v1/content_pb.ts';
import { create } from '@bufbuild/protobuf';
import { ask, askToFail, user } from './fixtures/ask.ts';
import { createSimulator } from './simulator.ts';

const simulator = createSimulator({ tokensPerSecond: 0, steering: true });

type Source = { case: 'base64' | 'url' | 'fileId'; value: string };

function makeImageItem(...sources: Source[]): Item {
  const images = sources.map(source => ({ content: { case: 'image' as const, value: { source: { source } } } }));
  const parts = [{ content: { case: 'text' as const, value: { text: 'What is this?' } } }, ...images];
  return create(ItemSchema, { content: { case: 'message', value: { role: Role.USER, parts } } });
}

async function drawn(format: 'png' | 'jpeg' | 'webp' | 'gif', background: string): Promise<string> {
  const image = sharp({ create: { width: 64, height: 48, channels: 4, background } });
  return (await image.toFormat(format).toBuffer()).toString('base64');
}

describe('an image', () => {
  test.each([
    ['png', 'PNG', '#ff0000', 'red'],
    ['jpeg', 'JPEG', '#0000ff', 'blue'],
    ['webp', 'WebP', '#ffffff', 'white'],
    ['gif', 'GIF', '#00a000', 'green'],
  ] as const)('in %s is described by size and colour', async (format, name, colour, word) => {
    const value = await drawn(format, colour);
    const { text } = await ask(simulator, { items: [makeImageItem({ case: 'base64', value })] });
    expect(text).toContain(`Image 1 is 64 × 48 pixels (${name}), mostly ${word}`);
  });

  test('that is fully transparent is described as white, and a grey one as grey', async () => {
    const clear = await drawn('png', '#00000000');
    const grey = sharp({ create: { width: 9, height: 9, channels: 3, background: '#808080' } }).toColourspace('b-w');
    const value = (await grey.png().toBuffer()).toString('base64');
    const { text } = await ask(simulator, {
      items: [makeImageItem({ case: 'base64', value: clear }, { case: 'base64', value })],
    });
    expect(text).toContain('Image 1 is 64 × 48 pixels (PNG), mostly white (#ffffff).');
    expect(text).toContain('Image 2 is 9 × 9 pixels (PNG), mostly grey (#808080).');
  });

  test('in a data URL is read; one with another URL or a file id is not', async () => {
    const value = `data:image/png;base64,${await drawn('png', '#ff0000')}`;
    const { text } = await ask(simulator, {
      items: [
        makeImageItem(
          { case: 'url', value },
          { case: 'url', value: 'https://example.com/a.png' },
          { case: 'fileId', value: 'f' },
        ),
      ],
    });
    expect(text).toContain('Image 1 is 64 × 48 pixels (PNG), mostly red');
    expect(text).toContain('Image 2 is a URL, which this model does not fetch.');
    expect(text).toContain('Image 3 is a stored file; this model can’t open it.'.replace('’', "'"));
  });

  test('of an earlier turn is not described again', async () => {
    const first = makeImageItem({ case: 'base64', value: await drawn('png', '#ff0000') });
    const answer = await ask(simulator, { items: [first] });
    const { text } = await ask(simulator, { items: [first, ...answer.items, user('Thanks')] });
    expect(text).not.toContain('pixels');
  });

  test('that can’t be decoded is refused and named by its number, even in an earlier turn', async () => {
    const good = await drawn('png', '#ff0000');
    const broken = Buffer.from(good, 'base64').subarray(0, 60).toString('base64');
    const svg = Buffer.from('<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"/>').toString('base64');
    for (const value of [broken, svg, 'not base64!', '', 'AAAA', `data:image/png;base64,${broken}`]) {
      const source: Source = { case: value.startsWith('data:') ? 'url' : 'base64', value };
      const items = [makeImageItem({ case: 'base64', value: good }, source), user('And now?')];
      const { answer, failure } = await askToFail(simulator, { items });
      expect(answer.events).toEqual([]);
      expect(failure).toMatchObject({ kind: 'status', facts: { status: 400 } });
      expect(String(failure)).toContain('Image 2');
    }
  });
});
