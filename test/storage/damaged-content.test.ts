/** A damaged `content.db`: what the gateway reports at its start, and that it returns no damaged response (docs/operations.md "A disk that loses writes"). */
import { cpSync, existsSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import {
  type Ended,
  expectVerified,
  type Gateway,
  type Home,
  isOnPostgres,
  makeHome,
  runCommand,
  startGateway as startProcess,
} from '../gateway.ts';
import { startGateway } from '../hosted-gateway.ts';

const config = 'simulator: { tokens_per_second: 0 }\n';
const pageBytes = 4096;
/** Number of stored responses; each takes several pages. */
const storedCount = 30;

async function store({ url, apiKey }: Gateway, name: string): Promise<string> {
  const answer = await fetch(`${url}/v1/responses`, {
    method: 'POST',
    headers: { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' },
    body: JSON.stringify({
      model: 'sim/small',
      input: `!sim tokens=3\n${name}${' filler'.repeat(1500)} end of ${name}`,
    }),
  });
  const { id } = (await answer.json()) as { id: string };
  return id;
}

/** Reads the input of a stored response. */
async function read({ url, apiKey }: Gateway, id: string): Promise<{ status: number; text: string }> {
  const headers = { authorization: `Bearer ${apiKey}` };
  const answer = await fetch(`${url}/v1/responses/${id}/input_items`, { headers });
  return { status: answer.status, text: await answer.text() };
}

// Only SQLite has this file.
describe.skipIf(isOnPostgres)('a damaged content.db', () => {
  const home: Home = makeHome();
  const path = join(home.dataDir, 'content.db');
  const [stopped, killed] = [join(home.folder, 'stopped'), join(home.folder, 'killed')];
  const ids: string[] = [];
  let late = '';

  const start = (): Promise<Gateway> => startGateway({ home, config });
  /** Starts a gateway that a test kills, or that ends by itself. */
  const startAlone = (): Promise<Gateway> => startProcess({ home, config });
  const end = async (gateway: Gateway): Promise<void> => {
    expect((await gateway.stop()).code).toBe(0);
    await expectVerified(home);
  };
  /** Runs `serve`, which is expected to fail, and returns how it ended. */
  const startInVain = (): Promise<Ended> => runCommand(home, ['serve', '--config', join(home.folder, 'gateway.yaml')]);
  const putBack = (from: string): void => {
    rmSync(home.dataDir, { recursive: true });
    cpSync(from, home.dataDir, { recursive: true });
  };
  const change = (edit: (bytes: Buffer) => void): void => {
    const bytes = readFileSync(path);
    edit(bytes);
    writeFileSync(path, bytes);
  };
  /** Zeroes the middle one of the pages that hold rows. */
  const zeroPage = (bytes: Buffer): void => {
    const pages = Array.from({ length: bytes.length / pageBytes }, (_, index) => index * pageBytes).slice(1);
    const rowPages = pages.filter(at => bytes[at] === 0x0d);
    const at = rowPages[Math.floor(rowPages.length / 2)];
    if (at === undefined) throw new Error('no page of rows');
    bytes.fill(0, at, at + pageBytes);
  };

  beforeAll(async () => {
    const gateway = await start();
    for (let count = 0; count < storedCount; count += 1) ids.push(await store(gateway, `prompt ${count}`));
    expect((await gateway.stop()).code).toBe(0);
    cpSync(home.dataDir, stopped, { recursive: true });
    const again = await startAlone();
    late = await store(again, 'late prompt');
    // Once the store is idle, everything is in the file, and the WAL is empty.
    await vi.waitUntil(() => readFileSync(`${path}-wal`).length === 0, { timeout: 30_000 });
    await again.kill();
    cpSync(home.dataDir, killed, { recursive: true });
  }, 300_000);
  beforeEach(() => putBack(killed));
  afterAll(async () => {
    putBack(stopped);
    await expectVerified(home);
    rmSync(home.folder, { recursive: true, force: true });
  });

  test.each<[name: string, damage: () => void]>([
    ['truncated', () => truncateSync(path, Math.floor(readFileSync(path).length / pageBytes / 2) * pageBytes)],
    ['truncated within a page', () => truncateSync(path, readFileSync(path).length - 1000)],
    ['without a page in the middle', () => change(zeroPage)],
    ['with another header', () => change(bytes => bytes.fill('garbage ', 0, 100))],
    ['that contains only zeros', () => change(bytes => bytes.fill(0))],
  ])(
    '%s makes a start after a crash fail with advice; once the file is moved away, the gateway starts without it',
    async (_, damage) => {
      damage();
      const { code, stderr } = await startInVain();
      expect(code).toBe(1);
      expect(stderr).toContain(path);
      expect(stderr).toMatch(/Restore it from a backup, or move it away/);
      for (const name of [path, `${path}-wal`, `${path}-shm`]) rmSync(name, { force: true });
      const gateway = await start();
      expect((await read(gateway, ids[0] ?? '')).status).toBe(404);
      const id = await store(gateway, 'a new prompt');
      expect((await read(gateway, id)).text).toContain('end of a new prompt');
      await end(gateway);
    },
  );

  test('whose WAL is deleted after a crash is read as of its last checkpoint; each newer response is whole or not found', async () => {
    putBack(stopped);
    let gateway = await startAlone();
    const fresh: string[] = [];
    for (let count = 0; count < 10; count += 1) fresh.push(await store(gateway, `fresh ${count}`));
    await gateway.kill();
    rmSync(`${path}-wal`);
    gateway = await start();
    for (const [index, id] of ids.entries()) expect((await read(gateway, id)).text).toContain(`end of prompt ${index}`);
    for (const [index, id] of fresh.entries()) {
      const { status, text } = await read(gateway, id);
      if (status !== 404) expect(text).toContain(`end of fresh ${index}`);
    }
    await end(gateway);
  });

  test('without its WAL and without a page makes the start fail: the `-shm` file shows that the process was not stopped', async () => {
    rmSync(`${path}-wal`);
    expect(existsSync(`${path}-shm`)).toBe(true);
    change(zeroPage);
    const { code, stderr } = await startInVain();
    expect([code, stderr]).toEqual([1, expect.stringContaining(`${path} is damaged`)]);
  });

  test('that lost a page after a stop ends the process at the first read of that page, and all later starts fail', async () => {
    putBack(stopped);
    expect([existsSync(`${path}-wal`), existsSync(`${path}-shm`)]).toEqual([false, false]);
    change(zeroPage);
    const gateway = await startAlone();
    const answers: string[] = [];
    for (const [index, id] of ids.entries()) {
      const answer = await read(gateway, id).catch(() => undefined);
      if (answer?.status === 200 && !answer.text.includes(`end of prompt ${index}`)) answers.push(answer.text);
    }
    expect(answers).toEqual([]);
    const { code, stderr } = await gateway.ended;
    expect([code, stderr]).toEqual([1, expect.stringContaining('malformed')]);
    for (let count = 0; count < 2; count += 1) {
      const next = await startInVain();
      expect([next.code, next.stderr]).toEqual([1, expect.stringContaining(`${path} is damaged`)]);
    }
  });

  test.each([
    ['zeros', '\0'],
    ['letters', 'z'],
  ])('with %s inside a response: that response is not returned, the others are', async (_, letter) => {
    const text = 'end of prompt 7';
    change(bytes => {
      for (let at = bytes.indexOf(text); at !== -1; at = bytes.indexOf(text, at + 1))
        bytes.fill(letter, at - 50, at + 6);
    });
    const gateway = await start();
    const damaged = await read(gateway, ids[7] ?? '');
    expect([damaged.status, damaged.text.includes('filler')]).toEqual([500, false]);
    for (const index of [6, 8])
      expect((await read(gateway, ids[index] ?? '')).text).toContain(`end of prompt ${index}`);
    expect((await read(gateway, late)).text).toContain('end of late prompt');
    await expect.poll(() => gateway.printed()).toContain('is damaged on the disk');
    await end(gateway);
  });
});
