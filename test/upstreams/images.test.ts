/** Images that an upstream returns by URL are fetched only from public addresses, never from the gateway's network. */
import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import type { IncomingHttpHeaders } from 'node:http';
import { createServer } from 'node:https';
import type { AddressInfo, LookupFunction } from 'node:net';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, describe, expect, test } from 'vitest';
import { UpstreamFailure } from '../../src/generation/upstream.ts';
import { systemRuntime as runtime } from '../../src/lib/runtime.ts';
import { ImageFetcher } from '../../src/upstreams/image-fetcher.ts';

const pemPath = fileURLToPath(new URL('fixtures/self-signed.pem', import.meta.url));
const pem = readFileSync(pemPath);
const requested: { path: string; headers: IncomingHttpHeaders }[] = [];
let connections = 0;
const server = createServer({ key: pem, cert: pem }, (request, response) => {
  requested.push({ path: request.url ?? '', headers: request.headers });
  if (request.url === '/moved') response.writeHead(302, { location: '/image' }).end();
  else if (request.url === '/gone') response.writeHead(404).end('no');
  else response.end(request.url === '/large' ? 'x'.repeat(2_000) : 'an image');
});
server.on('connection', () => (connections += 1));
server.listen(0, '127.0.0.1');
await once(server, 'listening');
afterAll(() => server.close());
const origin = `https://127.0.0.1:${(server.address() as AddressInfo).port}`;

const run = promisify(execFile);

/** Fetches an image in a process that trusts the server's certificate and may connect to it. */
async function fetched(path: string): Promise<string> {
  const script = fileURLToPath(new URL('fetch-image.ts', import.meta.url));
  const env = { ...process.env, NODE_EXTRA_CA_CERTS: pemPath };
  const { stdout } = await run(process.execPath, [script, origin + path, '1000'], { env });
  return stdout;
}

describe('an allowed address', () => {
  test('returns its bytes, and gets no credential', async () => {
    expect(await fetched('/image?a=1')).toBe('fetched an image');
    const [{ path, headers } = { path: '', headers: {} }] = requested.splice(0);
    expect(path).toBe('/image?a=1');
    expect(Object.keys(headers).toSorted()).toEqual(['accept', 'connection', 'host', 'user-agent']);
  });

  test.each(['/moved', '/gone', '/large'])(
    '%s returns no image, because redirects are not followed and sizes are limited',
    async path => {
      expect(await fetched(path)).toBe('refused malformed');
      expect(requested.splice(0).map(each => each.path)).toEqual([path]);
    },
  );
});

describe('a forbidden address is not connected to', () => {
  const looksUp =
    (...addresses: string[]): LookupFunction =>
    (_host, _options, callback) =>
      callback(
        null,
        addresses.map(address => ({ address, family: address.includes(':') ? 6 : 4 })),
      );

  async function refusal(url: string, lookup?: LookupFunction): Promise<unknown> {
    const before = connections;
    const fetcher = new ImageFetcher({ bytesMax: 1_000, runtime, ...(lookup === undefined ? {} : { lookup }) });
    const kind = await fetcher.fetch(url, new AbortController().signal).then(
      () => 'fetched',
      (thrown: unknown) => (thrown instanceof UpstreamFailure ? thrown.kind : 'defect'),
    );
    expect(connections).toBe(before);
    return kind;
  }

  test.each([
    `${origin}/image`,
    'http://example.com/a.png',
    'ftp://example.com/a.png',
    'file:///etc/passwd',
    'https://user:password@example.com/',
    'https://2130706433/a.png',
    'https://0x7f.1/a.png',
    'https://017700000001/',
    'https://[::1]/',
    'https://[::ffff:127.0.0.1]/',
    'https://169.254.169.254/latest/meta-data',
    'nonsense',
    '',
  ])('%s', async url => {
    expect(await refusal(url)).toBe('malformed');
  });

  const { port } = server.address() as AddressInfo;
  test.each([
    { name: 'a private address', addresses: ['127.0.0.1'] },
    { name: 'a private address among public ones', addresses: ['8.8.8.8', '127.0.0.1'] },
    { name: 'a private IPv6 address', addresses: ['::1'] },
  ])('a name that has $name', async ({ addresses }) => {
    expect(await refusal(`https://images.example:${port}/image`, looksUp(...addresses))).toBe('connect');
  });

  test('a host name is looked up only once, by the connection, so the checked address can’t differ from the one that is used', async () => {
    const looked: string[] = [];
    const checked: string[] = [];
    const rebinding: LookupFunction = (host, options, callback) => {
      looked.push(host);
      looksUp(looked.length === 1 ? '127.0.0.1' : '127.0.0.2')(host, options, callback);
    };
    const isAllowed = (address: string): boolean => checked.push(address) > 0;
    const before = connections;
    const fetcher = new ImageFetcher({ bytesMax: 1_000, runtime, lookup: rebinding, isAllowed });
    // The server's certificate is not trusted here, so the connection is made but no request is sent.
    await expect(
      fetcher.fetch(`https://images.example:${port}/image`, new AbortController().signal),
    ).rejects.toMatchObject({ kind: 'connect' });
    expect([looked, checked, connections - before]).toEqual([['images.example'], ['127.0.0.1'], 1]);
    expect(requested).toEqual([]);
  });
});

test('a caller’s abort ends the fetch with the caller’s reason', async () => {
  const leave = new AbortController();
  const never: LookupFunction = () => undefined;
  const fetcher = new ImageFetcher({ bytesMax: 10, runtime, lookup: never });
  const fetching = fetcher.fetch('https://images.example/', leave.signal);
  const left = performance.now();
  leave.abort(new Error('gone'));
  await expect(fetching).rejects.toThrow('gone');
  // It does not wait for the timeout of the connection.
  expect(performance.now() - left).toBeLessThan(5_000);
});
