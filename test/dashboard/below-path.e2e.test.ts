/** The dashboard behind a proxy that removes a path: its files, its calls and its cookie (docs/reverse-proxy.md "Below a path"). */
import { afterAll, expect, test } from 'vitest';
import { endGateway } from '../gateway.ts';
import { startGateway } from '../hosted-gateway.ts';
import { PathProxy } from './path-proxy.ts';

const proxy = new PathProxy();
await proxy.listen();
const { origin } = proxy;
const gateway = await startGateway({ config: `public_url: ${origin}/ai\n` });
proxy.target = gateway.url;
afterAll(async () => {
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
