/** The client's address is the word of a proxy only if the operator trusts that proxy: in the audit, of REST and of the dashboard's listener. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { endGateway } from '../gateway.ts';
import { startGateway } from '../hosted-gateway.ts';

const gateway = await startGateway({ config: 'trusted_proxies: [127.0.0.1]\n' });
afterAll(() => endGateway(gateway));

async function createKey(forwarded: string): Promise<string | undefined> {
  const response = await fetch(`${gateway.url}/v1/account/keys`, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${gateway.managementKey}`,
      'content-type': 'application/json',
      'x-forwarded-for': forwarded,
    },
    body: '{}',
  });
  expect(response.status).toBe(200);
  return readAddress();
}

async function readAddress(): Promise<string | undefined> {
  return (await gateway.admin.listAccountAudit({ accountId: 1n, query: { limit: 1 } })).records[0]?.address;
}

test('behind a trusted proxy the audit has the client’s address, and only the proxy’s word for it', async () => {
  expect(await createKey('198.51.100.7')).toBe('198.51.100.7');
  // The client has sent a hop of its own before the proxy added the real address.
  expect(await createKey('1.2.3.4, 198.51.100.8')).toBe('198.51.100.8');
});

test('the same at the internal listener, where a caller can’t set the gateway’s own header', async () => {
  const response = await fetch(`${gateway.rpcUrl}/tollgate.v1.AccountService/CreateKey`, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${gateway.managementKey}`,
      'content-type': 'application/json',
      'x-forwarded-for': '198.51.100.9',
      'x-tollgate-client-address': '1.2.3.4',
    },
    body: '{"settings":{}}',
  });
  expect(response.status).toBe(200);
  expect(await readAddress()).toBe('198.51.100.9');
});

test('a reload that no longer trusts the proxy applies at once', async () => {
  writeFileSync(join(gateway.home.folder, 'gateway.yaml'), 'trusted_proxies: [10.0.0.0/8]\n');
  await gateway.admin.reloadConfiguration({});
  expect(await createKey('198.51.100.7')).toBe('127.0.0.1');
});
