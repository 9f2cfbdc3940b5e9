/** Calls the paths of files and batches over the public listener. */
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'vitest';
import type { ActivityRecord } from '../../src/gen/tollgate/v1/account_pb.ts';
import type { Gateway } from '../gateway.ts';

/** The object of a batch. */
export interface BatchBody {
  readonly id: string;
  readonly status: string;
  readonly endpoint: string;
  readonly input_file_id: string;
  readonly output_file_id: string | null;
  readonly error_file_id: string | null;
  readonly errors: { readonly data: readonly { line: number | null; code: string; param: string | null }[] } | null;
  readonly request_counts: { readonly total: number; readonly completed: number; readonly failed: number };
  readonly usage: { readonly input_tokens: number; readonly output_tokens: number; readonly cost: number };
  readonly [name: string]: unknown;
}

/** A line of a result file. */
export interface ResultBody {
  readonly custom_id: string;
  readonly response: { readonly status_code: number; readonly request_id: string; readonly body: AnswerBody } | null;
  readonly error: { readonly code: string } | null;
}

interface AnswerBody {
  readonly usage?: { readonly cost: number };
  readonly error?: { readonly code: string };
  readonly choices?: readonly { readonly message: { readonly content: string } }[];
  readonly [name: string]: unknown;
}

/** The status and body of an answer. */
export interface Called<Body> {
  readonly status: number;
  readonly body: Body;
}

/** Calls a path. An object as body is sent as JSON. */
export async function call<Body>(
  { url, apiKey }: Pick<Gateway, 'url' | 'apiKey'>,
  path: string,
  { method = 'GET', body, headers = {} }: { method?: string; body?: object; headers?: Record<string, string> } = {},
): Promise<Called<Body>> {
  const isForm = body instanceof FormData;
  const response = await fetch(url + path, {
    method,
    headers: {
      authorization: `Bearer ${apiKey}`,
      ...(body === undefined || isForm ? {} : { 'content-type': 'application/json' }),
      ...headers,
    },
    ...(body === undefined ? {} : { body: isForm ? body : JSON.stringify(body) }),
  });
  const text = await response.text();
  return { status: response.status, body: (text === '' ? null : JSON.parse(text)) as Body };
}

/** Returns a chat item whose steering line determines the answer. */
export function chatItem(id: string, line: string, more: object = {}): object {
  const messages = [{ role: 'user', content: `x\n!sim ${line}` }];
  return {
    custom_id: id,
    method: 'POST',
    url: '/v1/chat/completions',
    body: { model: 'sim/small', messages, ...more },
  };
}

/** Returns the items as lines of JSON. */
export function jsonLines(items: readonly object[]): string {
  return items.map(item => `${JSON.stringify(item)}\n`).join('');
}

/** Uploads a file for batches. */
export async function upload<Body = { id: string }>(
  gateway: Pick<Gateway, 'url' | 'apiKey'>,
  text: string,
  purpose = 'batch',
): Promise<Called<Body>> {
  const form = new FormData();
  form.append('purpose', purpose);
  form.append('file', new Blob([text]), 'requests.jsonl');
  return call<Body>(gateway, '/v1/files', { method: 'POST', body: form });
}

/** Makes a batch of these items. */
export async function createBatch(
  gateway: Pick<Gateway, 'url' | 'apiKey'>,
  items: readonly object[] | string,
  more: object = {},
): Promise<BatchBody> {
  const { body: file } = await upload(gateway, typeof items === 'string' ? items : jsonLines(items));
  const requested = { input_file_id: file.id, endpoint: '/v1/chat/completions', completion_window: '24h', ...more };
  const { status, body } = await call<BatchBody>(gateway, '/v1/batches', { method: 'POST', body: requested });
  if (status !== 200) throw new Error(`no batch: ${JSON.stringify(body)}`);
  return body;
}

/** Returns a batch. */
export async function getBatch(gateway: Pick<Gateway, 'url' | 'apiKey'>, id: string): Promise<BatchBody> {
  return (await call<BatchBody>(gateway, `/v1/batches/${id}`)).body;
}

const over = new Set(['failed', 'completed', 'expired', 'cancelled']);

/** Waits until a batch has ended, and returns it. */
export async function endedBatch(
  gateway: Pick<Gateway, 'url' | 'apiKey'>,
  id: string,
  ms = 30_000,
): Promise<BatchBody> {
  for (const deadline = performance.now() + ms; ; await sleep(50)) {
    const batch = await getBatch(gateway, id);
    if (over.has(batch.status)) return batch;
    if (performance.now() > deadline) throw new Error(`the batch still is ${JSON.stringify(batch)}`);
  }
}

/** Returns the parsed lines of a file; [] if there is no file. */
export async function readLines<Line = ResultBody>(
  { url, apiKey }: Pick<Gateway, 'url' | 'apiKey'>,
  fileId: string | null,
): Promise<Line[]> {
  if (fileId === null) return [];
  const response = await fetch(`${url}/v1/files/${fileId}/content`, { headers: { authorization: `Bearer ${apiKey}` } });
  expect(response.status).toBe(200);
  const text = await response.text();
  return text
    .split('\n')
    .filter(line => line !== '')
    .map(line => JSON.parse(line) as Line);
}

/** Returns all records of the account. */
export async function allRecords({ account }: Pick<Gateway, 'account'>): Promise<ActivityRecord[]> {
  const records: ActivityRecord[] = [];
  for (;;) {
    const page = (await account.listActivity({ limit: 1_000, offset: records.length })).records;
    records.push(...page);
    if (page.length < 1_000) return records;
  }
}
