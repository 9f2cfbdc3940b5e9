/** Uploads that break off or are not what they say, of which nothing stays, and the share of the space that one account may have. */
import { once } from 'node:events';
import { readdirSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { createAccount, endGateway } from '../gateway.ts';
import { startGateway } from '../hosted-gateway.ts';

const gateway = await startGateway({ config: 'batches: { file_bytes: 1MiB, disk_bytes: 4MiB }\n' });
afterAll(() => endGateway(gateway));

const start = '--b\r\ncontent-disposition: form-data; name="purpose"\r\n\r\nbatch\r\n';
const file = (content: string): string =>
  `--b\r\ncontent-disposition: form-data; name="file"; filename="a.jsonl"\r\n\r\n${content}`;

async function upload(body: string, apiKey = gateway.apiKey): Promise<{ status: number; code: string; id: string }> {
  const reply = await fetch(`${gateway.url}/v1/files`, {
    method: 'POST',
    headers: { authorization: `Bearer ${apiKey}`, 'content-type': 'multipart/form-data; boundary=b' },
    body,
  });
  const { error, id = '' } = (await reply.json()) as { error?: { code: string }; id?: string };
  return { status: reply.status, code: error?.code ?? '', id };
}

/** Returns the unfinished files on the disk. */
function drafts(): string[] {
  return readdirSync(join(gateway.dataDir, 'files')).filter(name => name.endsWith('.draft'));
}

test.for([
  ['a form that breaks off in its file', start + file('{"a":1}\n'.repeat(50_000))],
  ['a form that breaks off after its file', `${start}${file('{}')}\r\n`],
  ['a form with a second file', `${start}${file('{}')}\r\n${file('{}')}\r\n--b--\r\n`],
  ['a form with a broken head', `${start}${file('{}')}\r\n--b\r\nx`],
])('%s is 400 and leaves nothing', async ([, body = '']) => {
  for (let upload_ = 0; upload_ < 20; upload_ += 1) {
    const { status, code } = await upload(body);
    expect([400, 422]).toContain(status);
    expect(['invalid_request', 'validation_error']).toContain(code);
    expect(drafts()).toEqual([]);
  }
  expect(await upload(`${start}${file('{}')}\r\n--b--\r\n`)).toMatchObject({ status: 200, code: '' });
});

test('an upload whose client disconnects leaves nothing', async () => {
  for (let each = 0; each < 20; each += 1) {
    const socket = connect(Number(new URL(gateway.url).port), '127.0.0.1');
    await once(socket, 'connect');
    const head = `POST /v1/files HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${gateway.apiKey}\r\ncontent-type: multipart/form-data; boundary=b\r\ncontent-length: 900000\r\n\r\n`;
    socket.write(head + start + file('{"a":1}\n'.repeat(50_000)));
    await expect.poll(() => drafts().length).toBe(1);
    socket.destroy();
    await expect.poll(drafts).toEqual([]);
  }
});

test('an account that has its share of the space can’t stop the uploads of others, and can upload again after it has deleted files', async () => {
  const many = await createAccount(gateway, '1');
  const others = [await createAccount(gateway, '1'), await createAccount(gateway, '1')];
  const large = `${start}${file('x'.repeat(300_000))}\r\n--b--\r\n`;
  const ids: string[] = [];
  for (let each = 0; each < 3; each += 1) ids.push((await upload(large, many)).id);
  for (let each = 0; each < 30; each += 1)
    expect(await upload(large, many)).toMatchObject({ status: 503, code: 'overloaded' });
  const together = await Promise.all(Array.from({ length: 10 }, () => upload(large, others[0])));
  expect(together.filter(({ status }) => status === 200).length).toBeLessThanOrEqual(3);
  expect(await upload(large, others[1])).toMatchObject({ status: 200 });
  const headers = { authorization: `Bearer ${many}` };
  await fetch(`${gateway.url}/v1/files/${ids[0]}`, { method: 'DELETE', headers });
  expect(await upload(large, many)).toMatchObject({ status: 200 });
});
