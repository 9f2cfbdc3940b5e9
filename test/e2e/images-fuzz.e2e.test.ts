/** 200 damaged files: each is edited, or refused with an error that names it, and the gateway uses no more memory or files afterwards. */
import { readdirSync, readFileSync } from 'node:fs';
import { afterAll, expect, test } from 'vitest';
import sharp from 'sharp';
import { readBalance, endGateway, heldBy, startGateway } from '../gateway.ts';
import { listImages } from '../stored-content.ts';
import { type ImageBody, noisePng, postImages } from './image-caller.ts';
import { makePng } from './sample-image.ts';

const gateway = await startGateway();
afterAll(() => endGateway(gateway));

/** The state of a random generator with a fixed seed, so that a failure can be repeated. */
let state = 20_261_121;
const random = (below: number): number => {
  state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
  return Math.floor((state / 2 ** 32) * below);
};

const wholes = [
  await makePng(80, 60, '#446688'),
  await noisePng(50, 40),
  // So large that memory would grow visibly if 200 of them were kept.
  await noisePng(1000, 1000),
  await sharp(await noisePng(64, 64))
    .png({ palette: true })
    .toBuffer(),
  await sharp(await noisePng(30, 90))
    .greyscale()
    .png({ progressive: true })
    .toBuffer(),
  await sharp(await makePng(20, 20, '#fff'))
    .jpeg()
    .toBuffer(),
  await sharp(await makePng(20, 20, '#fff'))
    .webp()
    .toBuffer(),
];

function damaged(whole: Buffer): Buffer {
  const file = Buffer.from(whole);
  switch (random(5)) {
    case 0: // cut off
      return file.subarray(0, random(file.length));
    case 1: // a few wrong bytes
      for (let left = 1 + random(8); left > 0; left -= 1) file[random(file.length)] = random(256);
      return file;
    case 2: // wrong lengths and sizes in the header
      file.writeUInt32BE(random(2 ** 32), 8 + random(20));
      return file;
    case 3: // bytes after its end, which are harmless
      return Buffer.concat([file, Buffer.from('trailing')]);
    default: // noise after a valid signature
      return Buffer.concat([
        file.subarray(0, 8),
        Buffer.from(Array.from({ length: random(3_000) }, () => random(256))),
      ]);
  }
}

function descriptors(): number {
  return readdirSync(`/proc/${gateway.pid}/fd`).length;
}

function residentBytes(): number {
  const kilobytes = /^VmRSS:\s+(\d+)/m.exec(readFileSync(`/proc/${gateway.pid}/status`, 'utf8'))?.[1];
  return Number(kilobytes) * 1024;
}

test.skipIf(process.platform !== 'linux')(
  '200 damaged files, as JSON, as masks and as forms',
  async () => {
    const good = wholes[0] ?? Buffer.alloc(0);
    const send = async (): Promise<number> => {
      const file = damaged(wholes[random(wholes.length)] ?? good);
      const kind = random(4);
      let answer: { status: number; body: ImageBody };
      if (kind === 0) {
        const form = new FormData();
        form.set('image', new Blob([new Uint8Array(file)]), 'a.png');
        form.set('prompt', 'x');
        answer = await postImages(gateway, 'edits', form);
      } else {
        const images = kind === 1 ? [good, file] : [kind === 2 ? good : file];
        const mask = kind === 2 ? { mask: file.toString('base64') } : {};
        const body = { prompt: 'x', images: images.map(each => each.toString('base64')), ...mask };
        answer = await postImages(gateway, 'edits', body);
      }
      expect([200, 422]).toContain(answer.status);
      if (answer.status === 422) expect(answer.body.error.param).toMatch(/^(image|images|mask)(\.\d)?$/);
      return answer.status;
    };
    let early = 0;
    // As many at once as later, so that all decoding threads are started.
    for (let warmUp = 0; warmUp < 40; warmUp += 4) {
      const answered = await Promise.all([send(), send(), send(), send()]);
      early += answered.filter(status => status === 200).length;
    }
    // Read before the measurement: the first read starts a thread, which keeps its files open.
    const before = await readBalance(gateway);
    const [fds, bytes] = [descriptors(), residentBytes()];
    const statuses: number[] = [];
    for (let sent = 0; sent < 200; sent += 4) statuses.push(...(await Promise.all([send(), send(), send(), send()])));
    const edited = statuses.filter(status => status === 200).length;
    expect(edited).toBeGreaterThan(10);
    expect(edited).toBeLessThan(100);
    // Edits were charged, refusals were not.
    expect(before - (await readBalance(gateway))).toBe(BigInt(edited) * 30_000_000n);
    expect(await heldBy(gateway)).toBe(0n);
    const kept = await listImages(gateway.home);
    expect(kept.filter(name => name.endsWith('.draft'))).toEqual([]);
    expect(kept).toHaveLength(early + edited);
    await expect.poll(descriptors, { timeout: 10_000 }).toBeLessThanOrEqual(fds + 8);
    expect(residentBytes() - bytes).toBeLessThan(150 * 1024 ** 2);
  },
  180_000,
);

test('malformed forms are refused, and none hangs', async () => {
  const whole = Buffer.concat([
    Buffer.from('--b\r\nContent-Disposition: form-data; name="prompt"\r\n\r\nx\r\n--b\r\n'),
    Buffer.from('Content-Disposition: form-data; name="image"; filename="a.png"\r\nContent-Type: image/png\r\n\r\n'),
    wholes[0] ?? Buffer.alloc(0),
    Buffer.from('\r\n--b--\r\n'),
  ]);
  const send = async (body: Buffer): Promise<number> => {
    const answer = await fetch(`${gateway.url}/v1/images/edits`, {
      method: 'POST',
      headers: { authorization: `Bearer ${gateway.apiKey}`, 'content-type': 'multipart/form-data; boundary=b' },
      body: new Uint8Array(body),
    });
    await answer.arrayBuffer();
    return answer.status;
  };
  expect(await send(whole)).toBe(200);
  for (let cut = 0; cut < whole.length - 4; cut += 7) {
    expect([400, 422], `cut at ${cut}`).toContain(await send(whole.subarray(0, cut)));
  }
  for (let number = 0; number < 60; number += 1) {
    const broken = Buffer.from(whole);
    for (let left = 1 + random(6); left > 0; left -= 1) broken[random(200)] = random(256);
    expect([200, 400, 422]).toContain(await send(broken));
  }
});
