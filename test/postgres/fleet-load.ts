/** A mixed load on a fleet of gateways. The clients record their answers. Any request may fail, but none may be charged twice or forgotten. */
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { KeyState } from '../../src/gen/tollgate/v1/admin_pb.ts';
import { chatItem, jsonLines } from '../e2e/batch-caller.ts';
import type { Fleet } from './fleet.ts';

/** The answers that clients received. */
export class Journal {
  /** The costs of complete answers in dollars, by request id. */
  readonly answers = new Map<string, number>();
  /** The paths of background responses, image tasks and batches that were started. */
  readonly jobs = new Set<string>();
  /** How many requests of the limited key were answered. */
  limited = 0;
  /** How many repeats of an answered request were answered. */
  repeated = 0;
  /** How many requests with a revoked key were refused. */
  refused = 0;
  /** The number of failed requests, by status or kind of failure. */
  readonly failures = new Map<string, number>();
  /** Descriptions of what must not have happened. */
  readonly wrongs: string[] = [];
}

/** A load that runs until it is stopped. */
export interface Load {
  readonly fleet: Fleet;
  readonly journal: Journal;
  /** A key with a limit of `limitMax` requests a day. */
  readonly limitedKey: string;
  isOver: boolean;
  /** The number of the next request. Most requests carry their number in `user`. */
  nextNumber: number;
}

/** Requests a day that the limited key may make. */
export const limitMax = 20;
/** After this time without an answer a request counts as stuck, in ms. The test pauses gateways for a shorter time. */
const stuckMs = 90_000;
/** The statuses that are allowed while a gateway or the database is down. */
const allowedFailures = new Set([409, 429, 502, 503, 504]);

interface Reply {
  readonly status: number;
  readonly text: string;
  readonly requestId: string;
}

interface Call {
  readonly at: number;
  readonly path: string;
  readonly key?: string;
  readonly body?: object;
  readonly idempotencyKey?: string;
}

/** Sends a request. Returns undefined if the connection broke off. */
async function call(
  { fleet, journal }: Load,
  { at, path, key, body, idempotencyKey }: Call,
): Promise<Reply | undefined> {
  const { gateway } = fleet.member(at);
  const signal = AbortSignal.timeout(stuckMs);
  try {
    const isForm = body instanceof FormData;
    const response = await fetch(gateway.url + path, {
      method: body === undefined ? 'GET' : 'POST',
      headers: {
        authorization: `Bearer ${key ?? gateway.apiKey}`,
        ...(body === undefined || isForm ? {} : { 'content-type': 'application/json' }),
        ...(idempotencyKey === undefined ? {} : { 'idempotency-key': idempotencyKey }),
      },
      ...(body === undefined ? {} : { body: isForm ? body : JSON.stringify(body) }),
      signal,
    });
    const text = await response.text();
    const { status, headers } = response;
    if (status >= 300) count(journal.failures, `${status}`);
    if (status >= 300 && status !== 401 && !allowedFailures.has(status))
      journal.wrongs.push(`${path}: ${status} ${text}`);
    return { status, text, requestId: headers.get('x-request-id') ?? '' };
  } catch (error) {
    if (signal.aborted) journal.wrongs.push(`${path}: not answered within ${stuckMs} ms`);
    count(journal.failures, error instanceof SyntaxError ? 'cut short' : 'connection');
    return undefined;
  }
}

function count(counts: Map<string, number>, what: string): void {
  counts.set(what, (counts.get(what) ?? 0) + 1);
}

/** Returns the cost in a whole answer of Chat; undefined if it broke off or failed. */
function readCost({ status, text }: Reply): number | undefined {
  if (status !== 200) return undefined;
  if (!text.startsWith('data:')) return (JSON.parse(text) as { usage: { cost: number } }).usage.cost;
  const isWhole = text.trimEnd().endsWith('data: [DONE]') && !text.includes('"error":{');
  const found = /"cost":([0-9.e-]+)/.exec(text)?.[1];
  return isWhole && found !== undefined ? Number(found) : undefined;
}

const streamed = { stream: true, stream_options: { include_usage: true } };

function makeChat(requestNumber: number, line: string, more: object = {}): object {
  return {
    model: 'sim/large',
    user: `request-${requestNumber}`,
    messages: [{ role: 'user', content: `x\n!sim ${line}` }],
    ...more,
  };
}

function note({ journal }: Load, reply: Reply | undefined): void {
  const cost = reply === undefined ? undefined : readCost(reply);
  if (reply !== undefined && cost !== undefined) journal.answers.set(reply.requestId, cost);
}

/** What a client does in one turn. */
type Turn = (load: Load, requestNumber: number) => Promise<void>;

const chat: Turn = async (load, requestNumber) => {
  const isSlow = requestNumber % 3 === 0;
  const line = isSlow ? 'tokens=200 tps=150' : `tokens=${5 + (requestNumber % 40)}`;
  note(
    load,
    await call(load, {
      at: requestNumber,
      path: '/v1/chat/completions',
      body: makeChat(requestNumber, line, requestNumber % 2 === 0 ? streamed : {}),
    }),
  );
};

/** Repeats a request with an Idempotency-Key until it is answered, then sends it to the other gateways, which must give the same answer. */
const repeat: Turn = async (load, requestNumber) => {
  const idempotencyKey = randomUUID();
  const body = makeChat(requestNumber, 'tokens=30 tps=200', requestNumber % 2 === 0 ? streamed : {});
  let first: Reply | undefined;
  for (let at = requestNumber, answers = 0; answers < 3 && !(load.isOver && first === undefined); at += 1) {
    const reply = await call(load, { at, path: '/v1/chat/completions', body, idempotencyKey });
    const cost = reply === undefined ? undefined : readCost(reply);
    if (reply === undefined || cost === undefined) {
      await sleep(200);
      if (first !== undefined && load.isOver) return;
      continue;
    }
    answers += 1;
    if (first === undefined) note(load, reply);
    else load.journal.repeated += 1;
    if (first !== undefined && reply.text !== first.text)
      load.journal.wrongs.push(
        `request-${requestNumber}: a repeat got a different answer:\n${first.text}\n${reply.text}`,
      );
    first ??= reply;
  }
};

const background: Turn = async (load, requestNumber) => {
  const body = {
    model: 'sim/large',
    user: `request-${requestNumber}`,
    input: 'x\n!sim tokens=100 tps=100',
    background: true,
  };
  const reply = await call(load, { at: requestNumber, path: '/v1/responses', body });
  if (reply?.status === 200) load.journal.jobs.add(`/v1/responses/${(JSON.parse(reply.text) as { id: string }).id}`);
  await sleep(300);
};

const image: Turn = async (load, requestNumber) => {
  const body = { model: 'sim/image', user: `request-${requestNumber}`, size: '64x64', prompt: 'hills', async: true };
  const reply = await call(load, { at: requestNumber, path: '/v1/images/generations', body });
  if (reply?.status === 202)
    load.journal.jobs.add(`/v1/images/tasks/${(JSON.parse(reply.text) as { task_id: string }).task_id}`);
  await sleep(300);
};

const batch: Turn = async (load, requestNumber) => {
  const items = [0, 1, 2, 3].map(at => chatItem(`item-${at}`, `tokens=${20 + at}`));
  const form = new FormData();
  form.append('purpose', 'batch');
  form.append('file', new Blob([jsonLines(items)]), 'requests.jsonl');
  const file = await call(load, { at: requestNumber, path: '/v1/files', body: form });
  if (file?.status !== 200) return sleep(500);
  const { id } = JSON.parse(file.text) as { id: string };
  const body = { input_file_id: id, endpoint: '/v1/chat/completions', completion_window: '24h' };
  const made = await call(load, { at: requestNumber + 1, path: '/v1/batches', body });
  if (made?.status === 200) load.journal.jobs.add(`/v1/batches/${(JSON.parse(made.text) as { id: string }).id}`);
  await sleep(1500);
};

/** Makes a key at one gateway, revokes it at the next, and expects every gateway to refuse it. */
const revoke: Turn = async (load, requestNumber) => {
  const { fleet, journal } = load;
  const ask = (at: number, key: string): Promise<Reply | undefined> =>
    call(load, { at, key, path: '/v1/chat/completions', body: makeChat(load.nextNumber++, 'tokens=5') });
  try {
    const { key } = await fleet.member(requestNumber).gateway.admin.createApiKey({ accountId: 1n });
    if (key === undefined) return;
    note(load, await ask(requestNumber + 1, key.key));
    note(load, await ask(requestNumber + 2, key.key));
    await fleet
      .member(requestNumber + 1)
      .gateway.admin.setApiKeyState({ apiKeyId: key.apiKeyId, state: KeyState.REVOKED });
    for (const at of [0, 1, 2]) {
      const reply = await ask(requestNumber + at, key.key);
      if (reply?.status === 200) journal.wrongs.push(`request-${requestNumber}: a revoked key was answered`);
      if (reply?.status === 401) journal.refused += 1;
    }
  } catch {
    count(journal.failures, 'management');
  }
  await sleep(500);
};

const limited: Turn = async (load, requestNumber) => {
  const { journal, limitedKey: key } = load;
  const reply = await call(load, {
    at: requestNumber,
    key,
    path: '/v1/chat/completions',
    body: makeChat(requestNumber, 'tokens=5'),
  });
  if (reply?.status === 200) journal.limited += 1;
  note(load, reply);
  await sleep(200);
};

const turns = [chat, chat, chat, repeat, repeat, background, image, batch, revoke, limited];

/** Starts a load. `stop` resolves when every client has ended its last turn. */
export function beginLoad(fleet: Fleet, limitedKey: string): { readonly load: Load; stop(): Promise<void> } {
  const load: Load = { fleet, journal: new Journal(), limitedKey, isOver: false, nextNumber: 1 };
  const clients = turns.map(async turn => {
    while (!load.isOver) {
      const requestNumber = load.nextNumber;
      load.nextNumber += 1;
      await turn(load, requestNumber).catch((error: unknown) => load.journal.wrongs.push(String(error)));
      await sleep(20);
    }
  });
  return {
    load,
    async stop() {
      load.isOver = true;
      await Promise.all(clients);
    },
  };
}
