/** Kills a gateway (kill -9) in the middle of conversations: responses that a client received stay unchanged, those that it did not receive are free, nothing stays held. */
import { rmSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'vitest';
import { toRequestId } from '../../src/generation/response-ids.ts';
import { readBalance, endGateway, type Gateway, heldBy, startGateway } from '../gateway.ts';
import { payg as model } from './chat-client.ts';
import { type Resource, ResponsesCaller, readText } from './resource-caller.ts';
import { SocketClient, type SocketResponse } from './socket-client.ts';

const config = 'simulator: { tokens_per_second: 0 }\n';

/** What clients know: responses whose end they received, and those that they started in the background. */
interface Known {
  readonly ended: Map<string, Resource | SocketResponse>;
  readonly begun: Set<string>;
}

/** Sends requests as one client until the gateway is gone. */
type Converse = (gateway: Gateway, known: Known) => Promise<void>;

const chained: Converse = async (gateway, { ended }) => {
  const caller = new ResponsesCaller(gateway, gateway.apiKey);
  for (let previous: string | null = null; ;) {
    const response: Resource = await caller.create({ model, input: '!sim say=On.', previous_response_id: previous });
    ended.set(response.id, response);
    previous = response.id;
  }
};

const streamed: Converse = async (gateway, { ended }) => {
  const caller = new ResponsesCaller(gateway, gateway.apiKey);
  for (;;) {
    const events = await caller.stream('POST', '', { model, input: '!sim tokens=30', stream: true });
    const last = events.at(-1);
    if (last?.type === 'response.completed' && last.response !== undefined) ended.set(last.response.id, last.response);
  }
};

const overSocket: Converse = async (gateway, { ended }) => {
  const client = await SocketClient.open(gateway.url, gateway.apiKey);
  for (let previous: string | null = null; ;) {
    const end = await client.ask({ model, input: '!sim say=On.', previous_response_id: previous });
    if (!('response' in end)) throw new Error(JSON.stringify(end.error));
    ended.set(end.response.id, end.response);
    previous = end.response.id;
  }
};

const inBackground: Converse = async (gateway, { begun }) => {
  const caller = new ResponsesCaller(gateway, gateway.apiKey);
  for (;;) begun.add((await caller.create({ model, input: '!sim tokens=40 tps=400', background: true })).id);
};

const clients = [chained, chained, streamed, streamed, overSocket, overSocket, inBackground];

async function listRecords({ account }: Gateway): Promise<Map<string, bigint>> {
  const costs = new Map<string, bigint>();
  for (let offset = 0; ; offset += 1_000) {
    const { records } = await account.listActivity({ limit: 1_000, offset });
    for (const { requestId, costNanoUsd } of records) {
      expect(costs.has(requestId), 'a request has one record').toBe(false);
      costs.set(requestId, costNanoUsd);
    }
    if (records.length < 1_000) return costs;
  }
}

/** Compares the stored responses with what clients know and with the ledger. */
async function compare(gateway: Gateway, { ended, begun }: Known): Promise<void> {
  const caller = new ResponsesCaller(gateway, gateway.apiKey);
  const costs = await listRecords(gateway);
  for (const [id, response] of ended) {
    expect(await caller.get(id)).toEqual(response);
    expect(Number(costs.get(toRequestId(id) ?? '')) / 1e9).toBe(response.usage?.['cost']);
  }
  for (const id of begun) {
    const { status, error, usage } = await caller.get(id);
    const cost = costs.get(toRequestId(id) ?? '');
    const known = [status, error?.code, usage?.['cost']];
    expect(known).toEqual(
      cost === undefined ? ['failed', 'server_restarted', undefined] : ['completed', undefined, Number(cost) / 1e9],
    );
  }
}

/** Kills a gateway under this load `rounds` times. */
export async function killConversations(rounds: number): Promise<void> {
  let gateway = await startGateway({ config, balance: '1000' });
  const { home } = gateway;
  const known: Known = { ended: new Map(), begun: new Set() };
  const before = await readBalance(gateway);
  try {
    for (let round = 0; round < rounds; round += 1) {
      const running = clients.map(converse => converse(gateway, known).catch(() => undefined));
      await sleep(400 + ((round * 137) % 700));
      await gateway.kill();
      await Promise.all(running);
      gateway = await startGateway({ config, home });
      expect(await heldBy(gateway), `held after kill ${round}`).toBe(0n);
    }
    expect(known.ended.size).toBeGreaterThan(rounds * 5);
    expect(known.begun.size).toBeGreaterThan(rounds);
    await compare(gateway, known);
    const costs = await listRecords(gateway);
    expect(before - (await readBalance(gateway))).toBe([...costs.values()].reduce((sum, cost) => sum + cost, 0n));
    const caller = new ResponsesCaller(gateway, gateway.apiKey);
    for (const id of [...known.ended.keys()].slice(-20)) {
      const next = await caller.create({ model, input: '!sim say=And on.', previous_response_id: id });
      expect(readText(next)).toBe('And on.');
    }
    await endGateway(gateway);
  } finally {
    await gateway.kill();
    rmSync(home.folder, { recursive: true, force: true });
  }
}
