/** Three gateways on one PostgreSQL, each with its own proxy to the database and its own wall clock. */
import { rmSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { PostgresConnection } from '../../src/lib/postgres/connection.ts';
import { FakeClock } from '../fake-clock.ts';
import { type Gateway, makeHome, startGateway } from '../gateway.ts';
import { DroppingProxy } from './dropping-proxy.ts';
import { type PostgresServer, startPostgres } from './server.ts';

const config = `simulator: { tokens_per_second: 0, steering: true }
daily_limit_unit: requests
limits: { image_tasks: 4, image_task_queue: 1000 }
`;
const hourMs = 3_600_000;

/** A gateway of a fleet. After a kill, tests replace `gateway` with the new process. */
export interface Member {
  gateway: Gateway;
  readonly proxy: DroppingProxy;
  readonly clock: FakeClock | undefined;
  readonly start: () => Promise<Gateway>;
}

/** Gateways that share a database. */
export class Fleet {
  readonly server: PostgresServer;
  readonly members: readonly Member[];

  private constructor(server: PostgresServer, members: readonly Member[]) {
    this.server = server;
    this.members = members;
  }

  /** Starts three gateways. `clocksApart`: the first one's wall clock is an hour behind, the last one's an hour ahead. */
  static async start(clocksApart = false): Promise<Fleet> {
    const server = await startPostgres();
    const first = makeHome();
    const members: Member[] = [];
    for (const index of [0, 1, 2]) {
      const proxy = await DroppingProxy.open(server.url);
      const clock = clocksApart ? new FakeClock(offTime(index - 1)) : undefined;
      const environment = { TOLLGATE_DATABASE_URL: proxy.url, ...clock?.environment };
      // The first gateway makes the keys, which all gateways use.
      const home = { ...makeHome(), apiKey: first.apiKey, managementKey: first.managementKey };
      const start = (): Promise<Gateway> => startGateway({ home, config, environment, balance: '100000' });
      members.push({ gateway: await start(), proxy, clock, start });
    }
    return new Fleet(server, members);
  }

  member(index: number): Member {
    const member = this.members[index % this.members.length];
    if (member === undefined) throw new Error('a fleet has members');
    return member;
  }

  /** Sends a statement to the database itself, not through a proxy. */
  async query(text: string, values: readonly string[] = []): Promise<Record<string, unknown>[]> {
    const connection = await PostgresConnection.open({ url: this.server.url });
    try {
      return await connection.query(text, values);
    } finally {
      await connection.end();
    }
  }

  /** Waits until every gateway is ready. */
  async waitUntilReady(): Promise<void> {
    for (const { gateway } of this.members) {
      for (const untilMs = performance.now() + 60_000; ;) {
        const ready = await fetch(`${gateway.url}/readyz`).catch(() => undefined);
        await ready?.arrayBuffer();
        if (ready?.status === 200) break;
        if (performance.now() > untilMs) throw new Error(`a gateway does not get ready:\n${gateway.printed()}`);
        await sleep(20);
      }
    }
  }

  async stop(): Promise<void> {
    for (const { gateway, proxy, clock } of this.members) {
      await gateway.kill();
      await proxy.close();
      clock?.remove();
      rmSync(gateway.home.folder, { recursive: true, force: true });
    }
    await this.server.stop();
  }
}

/** Returns the time `hours` from now. */
export function offTime(hours: number): string {
  return new Date(Date.now() + hours * hourMs).toISOString();
}
