/** The dashboard behind a proxy that removes a path: its files, its calls and its cookie (docs/reverse-proxy.md "Below a path"). */
import { createServer, request as send } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, expect, test } from 'vitest';
import { endGateway, type Gateway } from '../gateway.ts';
import { startGateway } from '../hosted-gateway.ts';

let target = '';
const proxy = createServer((incoming, outgoing) => {
  const path = incoming.url ?? '';
  if (!path.startsWith('/ai/')) return void outgoing.writeHead(404).end('not below the path');
  const forwarded = send(
    `${target}${path.slice(3)}`,
    { method: incoming.method, headers: incoming.headers },
    answer => {
      outgoing.writeHead(answer.statusCode ?? 500, answer.headers);
      answer.pipe(outgoing);
    },
  );
  incoming.pipe(forwarded);
});
await new Promise<void>(done => {
  proxy.listen(0, '127.0.0.1', done);
});
const origin = `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`;
const gateway: Gateway = await startGateway({ config: `public_url: ${origin}/ai\n` });
target = gateway.url;
afterAll(async () => {
  proxy.closeAllConnections();
  proxy.close();
  await endGateway(gateway);
});

test('every file that a page names is below the path, also on a page of some depth', async () => {
  for (const page of ['/ai/dashboard/', '/ai/dashboard/keys/7']) {
    const html = await (await fetch(origin + page)).text();
    expect(html).toContain('<meta name="tollgate-base" content="/ai/dashboard/"');
    const named = Array.from(html.matchAll(/(?:src|href)="([^"]+)"/g), ([, name = '']) => name);
    expect(named.length).toBeGreaterThan(3);
    expect(named.filter(name => !name.startsWith('/ai/dashboard/'))).toEqual([]);
    const answers = await Promise.all(named.map(async name => (await fetch(origin + name)).status));
    expect(new Set(answers)).toEqual(new Set([200]));
  }
  const { headers, status } = await fetch(`${origin}/ai/dashboard`, { redirect: 'manual' });
  expect([status, headers.get('location')]).toEqual([308, '/ai/dashboard/']);
});

test('a person signs in, and the cookie is sent only below the path', async () => {
  const call = (name: string, body: object, cookie = ''): Promise<Response> =>
    fetch(`${origin}/ai/dashboard/rpc/tollgate.v1.DashboardService/${name}`, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        'connect-protocol-version': '1',
        origin,
        ...(cookie !== '' && { cookie }),
      },
      body: JSON.stringify(body),
    });
  const signedIn = await call('SignIn', { credential: gateway.apiKey });
  expect(signedIn.status).toBe(200);
  const [cookie = ''] = signedIn.headers.getSetCookie();
  expect(cookie).toContain('; Path=/ai/dashboard;');
  const who = (await (await call('WhoAmI', {}, cookie.split(';')[0])).json()) as { role?: string };
  expect(who.role).toBeDefined();
});

test('the internal listener is reached without the path', async () => {
  const html = await (await fetch(`${gateway.rpcUrl}/dashboard/`)).text();
  expect(html).toContain('<meta name="tollgate-base" content="/dashboard/"');
});
