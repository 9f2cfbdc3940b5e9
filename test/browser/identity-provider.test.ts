import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Code, ConnectError } from '@connectrpc/connect';
import Provider from 'oidc-provider';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { AccountService } from '../../src/gen/tollgate/v1/account_pb.ts';
import { AdminService } from '../../src/gen/tollgate/v1/admin_pb.ts';
import { DashboardService, PersonRole } from '../../src/gen/tollgate/v1/dashboard_pb.ts';
import { PageCaller } from '../dashboard/page-caller.ts';
import { endGateway, type Gateway } from '../gateway.ts';
import { startGateway } from '../hosted-gateway.ts';

/** The people at the identity provider, with their groups. */
const groups: Readonly<Record<string, readonly string[]>> = { ann: ['platform'], bob: ['team'], eve: [] };

let gateway: Gateway;
let server: Server;

beforeAll(async () => {
  server = createServer();
  await new Promise<void>(done => {
    server.listen(0, '127.0.0.1', done);
  });
  const issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  gateway = await startGateway({
    config: `identity_provider:
  issuer: ${issuer}
  client_id: tollgate
  client_secret: ${'s'.repeat(32)}
  scopes: [openid, email, groups]
  people:
    - { claim: groups, value: platform, role: operator }
    - { claim: groups, value: "*tea*", role: viewer, account: 1 }
`,
  });
  const provider = new Provider(issuer, {
    clients: [
      {
        client_id: 'tollgate',
        client_secret: 's'.repeat(32),
        redirect_uris: [gateway.url, gateway.rpcUrl].map(origin => `${origin}/dashboard/callback`),
        response_types: ['code'],
        grant_types: ['authorization_code'],
      },
    ],
    claims: { openid: ['sub'], email: ['email', 'email_verified'], groups: ['groups'] },
    scopes: ['openid', 'email', 'groups'],
    pkce: { required: () => true },
    features: { devInteractions: { enabled: true } },
    cookies: { keys: ['test'] },
    findAccount: (_context: unknown, sub: string) => ({
      accountId: sub,
      claims: () => ({
        sub,
        email: `${sub}@example.test`,
        email_verified: sub === 'ann',
        groups: [...(groups[sub] ?? [])],
      }),
    }),
  });
  const answer = provider.callback();
  server.on('request', (request, response) => void answer(request, response));
});
afterAll(async () => {
  await endGateway(gateway);
  server.closeAllConnections();
  server.close();
});

/** Simulates a browser without scripts: it has cookies for each origin and follows redirects. */
class Walker {
  readonly #jars = new Map<string, Map<string, string>>();

  cookies(origin: string): string {
    return [...(this.#jars.get(origin) ?? [])].map(each => each.join('=')).join('; ');
  }

  async get(url: URL, form?: Record<string, string>): Promise<Response> {
    const response = await fetch(url, {
      redirect: 'manual',
      headers: { cookie: this.cookies(url.origin) },
      ...(form === undefined ? {} : { method: 'POST', body: new URLSearchParams(form) }),
    });
    const jar = this.#jars.get(url.origin) ?? new Map<string, string>();
    this.#jars.set(url.origin, jar);
    for (const each of response.headers.getSetCookie()) {
      const [name = '', value = ''] = each.split(';', 1)[0]?.split('=') ?? [];
      if (value === '') jar.delete(name);
      else jar.set(name, value);
    }
    return response;
  }

  /** Goes from the gateway's login through the provider's forms. Returns the URL of the callback without calling it. */
  async walk(origin: string, person: string): Promise<URL> {
    let next = new URL(`${origin}/dashboard/login`);
    let form: Record<string, string> | undefined;
    for (let hop = 0; hop < 12; hop += 1) {
      const response = await this.get(next, form);
      const location = response.headers.get('location');
      if (location !== null) {
        next = new URL(location, next);
        form = undefined;
        if (next.pathname === '/dashboard/callback') return next;
        continue;
      }
      const html = await response.text();
      const action = /action="([^"]+)"/.exec(html)?.[1];
      if (action === undefined) throw new Error(html);
      next = new URL(action, next);
      form = { prompt: /name="prompt" value="([^"]+)"/.exec(html)?.[1] ?? '', login: person, password: 'x' };
    }
    throw new Error('the provider never sent the browser back');
  }

  page(origin: string): PageCaller {
    const page = new PageCaller(origin);
    page.cookie = this.cookies(origin);
    return page;
  }
}

const readErrorCode = (call: Promise<unknown>): Promise<Code> =>
  call.then(
    () => Promise.reject(new Error('it was answered')),
    (thrown: unknown) => ConnectError.from(thrown).code,
  );

test('a person signs in through the provider and gets the role that the configuration gives to the claims', async () => {
  const walker = new Walker();
  const back = await walker.walk(gateway.url, 'bob');
  const answer = await walker.get(back);
  expect([answer.status, answer.headers.get('location')]).toEqual([302, '/dashboard/']);
  expect(answer.headers.getSetCookie().at(-1)).toMatch(/^tollgate_session=ss-tg-.*; HttpOnly; SameSite=Strict$/);
  const page = walker.page(gateway.url);
  const identity = await page.client(DashboardService).whoAmI({});
  expect(identity).toMatchObject({
    role: PersonRole.VIEWER,
    accountId: 1n,
    subject: 'bob',
    hasProvider: true,
  });
  const account = page.client(AccountService);
  expect((await account.listKeys({})).keys).toHaveLength(1);
  expect(await readErrorCode(account.createKey({}))).toBe(Code.PermissionDenied);
  // The code works only once, and only for the browser that requested it.
  expect((await walker.get(back)).status).toBe(400);
});

test('operators can sign in only over the internal listener', async () => {
  const outside = new Walker();
  expect((await outside.get(await outside.walk(gateway.url, 'ann'))).status).toBe(403);
  const inside = new Walker();
  expect((await inside.get(await inside.walk(gateway.rpcUrl, 'ann'))).status).toBe(302);
  const page = inside.page(gateway.rpcUrl);
  expect((await page.client(AdminService).listAccounts({})).accounts).toHaveLength(1);
  const { json } = await gateway.cli(['sessions', 'list', '--json']);
  const { data } = json as { data: { role: string; subject: string }[] };
  expect(data.map(({ role, subject }) => `${role} ${subject}`)).toContain('operator ann, ann@example.test');
});

test('a person whom no rule matches, a code issued to another browser and a forged one get no session', async () => {
  const eve = new Walker();
  const refused = await eve.get(await eve.walk(gateway.url, 'eve'));
  expect([refused.status, refused.headers.getSetCookie().some(each => each.includes('ss-tg-'))]).toEqual([403, false]);
  const victim = new Walker();
  await victim.walk(gateway.url, 'bob');
  const attacker = new Walker();
  const theirs = await attacker.walk(gateway.url, 'bob');
  expect((await victim.get(theirs)).status).toBe(400);
  const forged = new URL(`${gateway.url}/dashboard/callback?code=x&state=y`);
  expect((await new Walker().get(forged)).status).toBe(400);
});
