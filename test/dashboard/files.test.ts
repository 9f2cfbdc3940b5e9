import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, request, type IncomingHttpHeaders, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { brotliDecompressSync } from 'node:zlib';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { PageFiles } from '../../src/edge/dashboard/files.ts';

const folder = mkdtempSync(join(tmpdir(), 'tollgate-pages-'));
const script = `console.log(${JSON.stringify('a page '.repeat(500))});`;
let server: Server;

/** Serves a folder like the dashboard. */
async function serve(files: PageFiles): Promise<Server> {
  const serving = createServer((message, response) => {
    void files.answer((message.url ?? '').slice(1), { request: message, response, base: '/dashboard/' });
  });
  await new Promise<void>(done => {
    serving.listen(0, '127.0.0.1', done);
  });
  return serving;
}

beforeAll(async () => {
  mkdirSync(join(folder, 'assets'));
  writeFileSync(join(folder, 'index.html'), '<!doctype html><title>Tollgate</title>');
  writeFileSync(join(folder, 'assets', 'main-1.js'), script);
  writeFileSync(join(folder, 'assets', 'font.woff2'), 'a font');
  server = await serve(new PageFiles(folder));
});
afterAll(() => {
  server.close();
  rmSync(folder, { recursive: true });
});

interface Got {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
}

/** Requests a path without normalizing it. */
function get(path: string, headers: Record<string, string> = {}, method = 'GET', from = server): Promise<Got> {
  const { port } = from.address() as AddressInfo;
  return new Promise((resolve, reject) => {
    request({ port, host: '127.0.0.1', path: `/${path}`, method, headers, agent: false }, response => {
      const chunks: Buffer[] = [];
      response.on('data', (chunk: Buffer) => chunks.push(chunk));
      response.on('end', () => {
        resolve({ status: response.statusCode ?? 0, headers: response.headers, body: Buffer.concat(chunks) });
      });
    })
      .on('error', reject)
      .end();
  });
}

test('no served page may run scripts of other origins, or be framed', async () => {
  for (const path of ['', 'activity', 'assets/main-1.js', 'assets/none.js', 'assets/font.woff2']) {
    const { headers } = await get(path);
    expect(headers['content-security-policy']).toBe(
      "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
    );
    expect(headers['x-content-type-options']).toBe('nosniff');
    expect(headers['referrer-policy']).toBe('no-referrer');
    expect(headers['cross-origin-opener-policy']).toBe('same-origin');
    expect(headers['cross-origin-resource-policy']).toBe('same-origin');
  }
});

test('a page’s path is answered with the app, and a path with a file extension that does not exist with 404', async () => {
  for (const path of ['', 'activity', 'activity?model=a', 'requests/req_1', 'sign-in']) {
    const { status, headers, body } = await get(path.split('?', 1)[0] ?? '');
    expect([path, status, headers['content-type'], headers['cache-control']]).toEqual([
      path,
      200,
      'text/html; charset=utf-8',
      'no-cache',
    ]);
    expect(body.toString()).toContain('<title>Tollgate</title>');
  }
  for (const path of [
    'assets/gone.js',
    'assets/x',
    'nothing.txt',
    '../package.json',
    '%2e%2e/package.json',
    '/etc/passwd.txt',
  ]) {
    expect([path, (await get(path)).status]).toEqual([path, 404]);
  }
});

test('assets may be cached for ever, are compressed if the browser accepts it, and are not sent again', async () => {
  const plain = await get('assets/main-1.js');
  expect(plain.headers['cache-control']).toBe('public, max-age=31536000, immutable');
  expect(plain.headers['content-encoding']).toBeUndefined();
  expect(plain.body.toString()).toBe(script);
  const packed = await get('assets/main-1.js', { 'accept-encoding': 'gzip, br' });
  expect(packed.headers['content-encoding']).toBe('br');
  expect(packed.body.length).toBeLessThan(plain.body.length / 10);
  expect(brotliDecompressSync(packed.body).toString()).toBe(script);
  expect((await get('assets/font.woff2', { 'accept-encoding': 'br' })).headers['content-encoding']).toBeUndefined();
  const again = await get('assets/main-1.js', { 'if-none-match': plain.headers.etag ?? '' });
  expect([again.status, again.body.length]).toEqual([304, 0]);
  const head = await get('assets/main-1.js', {}, 'HEAD');
  expect([head.status, head.headers['content-length'], head.body.length]).toEqual([200, String(script.length), 0]);
});

test('a gateway whose dashboard was not built shows how to build it', async () => {
  const empty = await serve(new PageFiles(join(folder, 'none')));
  const { status, body } = await get('', {}, 'GET', empty);
  empty.close();
  expect(status).toBe(404);
  expect(body.toString()).toContain('npm ci');
});
