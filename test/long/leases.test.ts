/** Leases of gateways on PostgreSQL that expire by themselves. In test/postgres the same tests end the leases early. */
import { afterAll, beforeAll, test } from 'vitest';
import { expectSound, killGateway, pauseGateway, startTwo } from '../postgres/lost-gateways.ts';
import { createDatabase, type PostgresServer, startPostgres } from '../postgres/server.ts';

let server: PostgresServer;
const ends = (): Promise<void> => Promise.resolve();

beforeAll(async () => {
  server = await startPostgres();
});

afterAll(() => server.stop());

test('the holds of a gateway that is paused for longer than its lease are released within 30 s, and it charges nothing when it resumes', async () => {
  await pauseGateway(await createDatabase(server.url), ends);
});

test('the background work of a killed gateway is ended within 30 s', async () => {
  const url = await createDatabase(server.url);
  const gateways = await startTwo(url);
  await killGateway(gateways, ends);
  await gateways[0].stop();
  await expectSound(url);
});
