import { expect, test } from 'vitest';
import { backUpUnderLoad } from '../e2e/backup-rounds.ts';

const rounds = Number(process.env['BACKUP_ROUNDS'] ?? 50);

test(`of ${rounds} backups under load, two of three killed, each is the ledger at one moment or refused`, async () => {
  const { complete, refused, requests } = await backUpUnderLoad(rounds);
  console.log(`${rounds} backups: ${complete} complete, ${refused} refused, ${requests} requests`);
  expect(complete + refused).toBe(rounds);
  expect(complete).toBeGreaterThan(rounds / 4);
  expect(refused).toBeGreaterThan(0);
});
