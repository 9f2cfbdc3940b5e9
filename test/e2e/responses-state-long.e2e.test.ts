/** Long conversations: 1,000 turns that were stored earlier, and inputs of many megabytes. */
import { create } from '@bufbuild/protobuf';
import { afterAll, expect, test } from 'vitest';
import { encodeBody, withIds } from '../../src/core/responses/stored-response.ts';
import { textMessage } from '../../src/core/responses/text-message.ts';
import { type Item, Role } from '../../src/gen/tollgate/v1/content_pb.ts';
import { GenerateRequestSchema } from '../../src/gen/tollgate/v1/request_pb.ts';
import { outputItemId, toResponseId } from '../../src/generation/response-ids.ts';
import { systemClock } from '../../src/lib/clock.ts';
import { IdSource, publicRequestId } from '../../src/lib/ids.ts';
import type { Documents } from '../../src/store/documents.ts';
import { openPostgresDocuments } from '../../src/store/postgres/postgres-documents.ts';
import { PostgresPool } from '../../src/lib/postgres/pool.ts';
import { openSqliteDocuments } from '../../src/store/sqlite/documents/sqlite-documents.ts';
import { databaseVariable, isOnPostgres } from '../gateway-database.ts';
import { readBalance, endGateway, makeHome } from '../gateway.ts';
import { startGateway } from '../hosted-gateway.ts';
import { payg } from './chat-client.ts';
import { type Resource, ResponsesCaller, readText } from './resource-caller.ts';

const model = payg;
const turns = 999;
const home = makeHome();

async function openDocuments(): Promise<Documents> {
  const { TOLLGATE_DATABASE_URL: url } = databaseVariable(home);
  if (url === undefined) return openSqliteDocuments({ dataDir: home.dataDir, clock: systemClock, bytesMax: 1e9 });
  const pool = new PostgresPool({ url, connections: 4 });
  return openPostgresDocuments({ pool, boot: () => 0 }, { bytesMax: 1e9, keptBytesMax: 1e9 }, () => pool.close());
}

/** Writes turns to the store as an earlier process would have: making them one by one would take longer than all other tests of the folder. */
async function storeConversation(): Promise<string[]> {
  const documents = await openDocuments();
  const ids = new IdSource(systemClock);
  const stored: string[] = [];
  for (let turn = 0; turn < turns; turn += 1) {
    const id = toResponseId(publicRequestId(ids.next()));
    const message = (role: Role, text: string): Item => textMessage(role, `${text} of turn ${turn}.`);
    const input = withIds(id, [message(Role.USER, 'Question')]);
    const answer = message(Role.ASSISTANT, 'Answer');
    const output = [{ ...answer, id: outputItemId(id, answer, 0) }];
    const head = {
      $typeName: 'tollgate.v1.ResponseHead' as const,
      id,
      model,
      createdAtMs: BigInt(systemClock.now()),
      settings: create(GenerateRequestSchema, { model }),
      store: true,
      background: false,
    };
    const parentId = stored.at(-1);
    stored.push(id);
    const outcome = await documents.put({
      kind: 'response',
      id,
      accountId: 1,
      state: 'ended',
      finished: true,
      createdAtMs: systemClock.now(),
      endsAtMs: systemClock.now() + 3_600_000,
      body: await encodeBody({ head, input, answer: { output, extensions: [] } }),
      ...(parentId === undefined ? {} : { parentId }),
    });
    expect(outcome).toEqual({ kind: 'stored' });
  }
  await documents.close();
  return stored;
}

// A content store without its ledger is refused, so the ledger is made first.
await (await startGateway({ home, balance: '100' })).stop();
const stored = await storeConversation();
const gateway = await startGateway({ home, balance: '100', config: 'content: { max_bytes: 10MiB }\n' });
afterAll(() => endGateway(gateway));
const caller = new ResponsesCaller(gateway, gateway.apiKey);

test('a response that was stored but not charged, because the process died in between, has failed and is free', async () => {
  const response = await caller.get(stored[7] ?? '');
  expect([response.status, response.error?.code, response.usage]).toEqual(['failed', 'server_restarted', null]);
  expect(readText(response)).toBe('Answer of turn 7.');
});

interface Listed {
  readonly id: string;
  readonly role: string;
  readonly content: readonly { readonly text: string }[];
}

/** Reads all input items of a response, page by page, oldest first. */
async function listInput(id: string): Promise<Listed[]> {
  const items: Listed[] = [];
  for (;;) {
    const after = items.length === 0 ? '' : `&after=${items.at(-1)?.id}`;
    const { body } = await caller.ask('GET', `/${id}/input_items?order=asc&limit=100${after}`);
    const page = body as { readonly data: Listed[]; readonly has_more: boolean };
    items.push(...page.data);
    if (!page.has_more) return items;
  }
}

const readTexts = (items: readonly Listed[]): (string | undefined)[] => items.map(item => item.content[0]?.text);

test('turn 1,000 and later ones continue from all earlier turns in their order, including deleted ones', async () => {
  const said = Array.from({ length: turns }, (_, turn) => [`Question of turn ${turn}.`, `Answer of turn ${turn}.`]);
  const history = said.flat();
  const input = [
    ...history.map((content, index) => ({ role: index % 2 === 0 ? 'user' : 'assistant', content })),
    { role: 'user', content: '!sim say=Here.' },
  ];
  const counted = await caller.ask('POST', '/input_tokens', { model, input });

  const next = await caller.create({ model, input: '!sim say=Here.', previous_response_id: stored.at(-1) });
  expect(readText(next)).toBe('Here.');
  expect(next.usage?.['input_tokens']).toBe((counted.body as { input_tokens: number }).input_tokens);
  const items = await listInput(next.id);
  expect(readTexts(items)).toEqual([...history, '!sim say=Here.']);
  expect(new Set(items.map(item => item.id)).size).toBe(2 * turns + 1);

  // Deletes the first turn, one in the middle and the last but one. They can no longer be continued, but later turns still have their items.
  for (const index of [0, 500, turns - 1]) expect((await caller.ask('DELETE', `/${stored[index]}`)).status).toBe(200);
  const refused = await caller.ask('POST', '', { model, input: 'x', previous_response_id: stored[500] });
  expect(refused.body).toMatchObject({ error: { code: 'previous_response_not_found' } });
  let last = next;
  for (const text of ['Still here.', 'And here.']) {
    last = await caller.create({ model, input: `!sim say=${text}`, previous_response_id: last.id });
    expect(readText(last)).toBe(text);
  }
  const [first, , second, , third] = readTexts((await listInput(last.id)).slice(-5));
  expect([first, second, third]).toEqual(['!sim say=Here.', '!sim say=Still here.', '!sim say=And here.']);
  // A fork reads from the store; the conversation that it forks from was in memory.
  const fork = await caller.create({ model, input: '!sim say=Fork.', previous_response_id: next.id });
  expect(await listInput(fork.id)).toHaveLength(2 * turns + 3);
});

/** A model with a context of a million tokens. */
const large = 'sim/long';

/** Returns a file of `characters` base64 characters, and a prompt about it. */
const makeFile = (characters: number, say: string): unknown[] => {
  const file_data = `data:application/pdf;base64,${'QUJD'.repeat(characters / 4)}`;
  const text = `!sim say=${say}`;
  return [
    {
      role: 'user',
      content: [
        { type: 'input_file', filename: 'a.pdf', file_data },
        { type: 'input_text', text },
      ],
    },
  ];
};

/** Returns the longest time that another request took while `work` ran, in ms. */
async function longestWait(work: Promise<unknown>): Promise<number> {
  let isDone = false;
  const done = work.finally(() => (isDone = true));
  let longest = 0;
  while (!isDone) {
    const began = performance.now();
    await (await fetch(`${gateway.url}/healthz`)).arrayBuffer();
    longest = Math.max(longest, performance.now() - began);
  }
  await done;
  return longest;
}

test('10 MB of input are stored, listed and continued, and other requests do not wait meanwhile', async () => {
  const input = makeFile(9_600_000, 'Read.');
  let first: Resource | undefined;
  let second: Resource | undefined;
  const waited = await longestWait(
    (async () => {
      first = await caller.create({ model: large, input });
      second = await caller.create({ model: large, input: '!sim say=Again.', previous_response_id: first.id });
    })(),
  );
  // Counting the tokens of such a text in one run would take half a minute.
  expect(waited).toBeLessThan(3_000);
  expect([first, second].map(each => each && readText(each))).toEqual(['Read.', 'Again.']);
  expect(Number(second?.usage?.['input_tokens'])).toBeGreaterThan(Number(first?.usage?.['input_tokens']));
  const { body } = await caller.ask('GET', `/${second?.id}/input_items?order=asc`);
  const [item] = (body as { readonly data: { readonly content: unknown[] }[] }).data;
  expect(item?.content).toEqual((input as { readonly content: unknown[] }[])[0]?.content);
});

test('if the space is full, the oldest responses are removed; a response that is larger than the whole space is refused, free of charge', async () => {
  const kept: Resource[] = [];
  for (const say of ['One.', 'Two.', 'Three.'])
    kept.push(await caller.create({ model: large, input: makeFile(4_800_000, say) }));
  const find = async (): Promise<number[]> => {
    const found = await Promise.all(kept.map(({ id }) => caller.ask('GET', `/${id}`)));
    return found.map(({ status }) => status);
  };
  // On PostgreSQL the space is measured once a minute.
  if (isOnPostgres) await expect.poll(find, { timeout: 90_000, interval: 1_000 }).toEqual([404, 200, 200]);
  else expect(await find()).toEqual([404, 200, 200]);
  const balance = await readBalance(gateway);
  const refused = await caller.ask('POST', '', { model: large, input: makeFile(10_800_000, 'Never.') });
  expect([refused.status, (refused.body as { error: { code: string } }).error.code]).toEqual([503, 'overloaded']);
  expect(await readBalance(gateway)).toBe(balance);
});
