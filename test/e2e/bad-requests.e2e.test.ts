/** Posts every row of the table of bad requests to a running gateway: status, code and field are as in the table, and nothing is charged or held. */
import { afterAll, expect, test } from 'vitest';
import { startGateway } from '../hosted-gateway.ts';
import { chatBadRequests, chatUnknownHints } from '../translation/chat-bad-requests.ts';
import { readBalance, endGateway, heldBy, makeKey } from '../gateway.ts';
import { complete } from './chat-client.ts';

const gateway = await startGateway({ config: 'simulator: { tokens_per_second: 0 }\n' });
afterAll(() => endGateway(gateway));
const { key, id } = await makeKey(gateway);
const before = await readBalance(gateway);

test('the table has at least 150 rows with different names', () => {
  expect(chatBadRequests.length).toBeGreaterThanOrEqual(150);
  expect(new Set(chatBadRequests.map(({ name }) => name)).size).toBe(chatBadRequests.length);
});

test.each(chatBadRequests)('$name', async ({ body, status, code, param }) => {
  const answer = await complete(gateway, typeof body === 'string' ? body : JSON.stringify(body), { key });
  const { error } = answer.body;
  expect({ status: answer.status, code: error?.code, param: error?.param }).toEqual({ status, code, param });
  expect(error.message).not.toBe('');
});

test('nothing was charged, held or recorded', async () => {
  expect(await readBalance(gateway)).toBe(before);
  expect(await heldBy(gateway)).toBe(0n);
  expect((await gateway.account.listActivity({ apiKeyId: id })).records).toEqual([]);
});

test.each(chatUnknownHints)('$name is answered, with a warning', async ({ body, field }) => {
  const answer = await complete(gateway, JSON.stringify(body), { key });
  expect(answer.status).toBe(200);
  expect(answer.headers.get('x-tollgate-warnings')).toBe(`dropped=${String(field)}`);
});
