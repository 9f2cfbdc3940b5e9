/** Leases of gateways on PostgreSQL that expire by themselves. test/postgres has the same tests with leases that are ended early. */
import { afterAll, beforeAll, test } from 'vitest';
import { expectSound, killGateway, pauseGateway, startTwo } from '../postgres/lost-gateways.ts';
import { createDatabase, type PostgresServer, startPostgres } from '../postgres/server.ts';

let server: PostgresServer;
const ends = (): Promise<void> => Promise.resolve();

beforeAll(async () => {
  server = await startPostgres();
});

afterAll(() => server.stop());

test('a gateway that is paused for longer than its lease has its holds released within 30 s, and charges nothing when it wakes', async () => {
  await pauseGateway(await createDatabase(server.url), ends);
});

test('the background work of a killed gateway is ended within 30 s', async () => {
  const url = await createDatabase(server.url);
  const gateways = await startTwo(url);
  await killGateway(gateways, ends);
  await gateways[0].stop();
  await expectSound(url);
});
