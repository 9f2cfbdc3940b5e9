/** Backups of a running gateway, some of them killed. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import Database from 'better-sqlite3';
import { expect } from 'vitest';
import { BackupError } from '../../src/gateway/backup/backup-error.ts';
import { restoreBackup } from '../../src/gateway/backup/restore-backup.ts';
import { verifyLedgerFile } from '../../src/ledger/sqlite/verify.ts';
import { endGateway, gatewayEnvironment, expectVerified, type Gateway, root, startGateway } from '../gateway.ts';
import { ask, complete, stream } from './chat-client.ts';

const funds = 1_000_000_000_000n;

/** Sends requests until `isOver`, and adds the ids of those whose cost it received to `known`. */
async function converse(gateway: Gateway, isOver: () => boolean, known: Set<string>, seed: number): Promise<void> {
  for (let turn = seed; !isOver(); turn += 7) {
    const body = ask(`Tolls\n!sim tokens=${5 + (turn % 60)}`);
    const { headers } = await (turn % 2 === 0 ? complete(gateway, body) : stream(gateway, body));
    known.add(headers.get('x-request-id') ?? '');
  }
}

interface Sums {
  readonly balance: bigint;
  readonly costs: ReadonlyMap<string, bigint>;
}

/** Reads sums from the ledger of a data directory, without the gateway's code. */
function readSums(dataDir: string): Sums {
  const db = new Database(join(dataDir, 'ledger.sqlite'), { readonly: true });
  db.defaultSafeIntegers(true);
  const balance = db.prepare<[], bigint>('SELECT balance FROM account WHERE id = 1').pluck().get() ?? -1n;
  const rows = db.prepare<[], { id: bigint; cost: bigint }>('SELECT id, cost FROM usage').all();
  db.close();
  return { balance, costs: new Map(rows.map(({ id, cost }) => [String(id), cost])) };
}

/** Restores a backup to an empty directory, and returns its sums; undefined if the backup was refused, in which case nothing may be left. */
async function restore(source: string, dataDir: string): Promise<Sums | undefined> {
  try {
    await restoreBackup({ source, dataDir });
  } catch (error) {
    if (!(error instanceof BackupError)) throw error;
    expect(error.message).toContain('Use another backup.');
    expect(existsSync(dataDir)).toBe(false);
    return undefined;
  }
  expect(verifyLedgerFile(dataDir)).toEqual([]);
  return readSums(dataDir);
}

/** Makes a backup, and kills it after `killAfterMs` unless it has ended. Returns whether it ended by itself. */
async function backUp({ home }: Gateway, backup: string, killAfterMs: number | undefined): Promise<boolean> {
  const child = spawn(process.execPath, [join(root, 'bin/tollgate.js'), 'backup', backup], {
    cwd: home.folder,
    env: gatewayEnvironment(home),
    stdio: 'ignore',
  });
  const ended = once(child, 'close');
  if (killAfterMs !== undefined) {
    // The time counts from the first file, because loading the program takes most of the time.
    while (!existsSync(backup) && child.exitCode === null) await sleep(1);
    await sleep(killAfterMs);
    child.kill('SIGKILL');
  }
  const [code] = (await ended) as [number | null];
  if (killAfterMs === undefined) expect(code).toBe(0);
  return code === 0;
}

/** The results of backups under load. */
export interface BackupRounds {
  readonly complete: number;
  readonly refused: number;
  readonly requests: number;
}

/** Makes backups under load, kills two of three at some moment, and restores each: every backup is the ledger at one moment, or is refused. */
export async function backUpUnderLoad(rounds: number): Promise<BackupRounds> {
  const gateway = await startGateway({ config: 'simulator: { tokens_per_second: 0 }\n', balance: '1000' });
  const { folder } = gateway.home;
  let isOver = false;
  const known = new Set<string>();
  const clients = Promise.all(Array.from({ length: 4 }, (_, seed) => converse(gateway, () => isOver, known, seed)));
  while (known.size < 20) await sleep(10);
  const restored: Sums[] = [];
  let refused = 0;
  for (let round = 0; round < rounds; round += 1) {
    const [backup, dataDir] = [join(folder, `backup-${round}`), join(folder, `restored-${round}`)];
    const knownBefore = known.size;
    const ended = await backUp(gateway, backup, round % 3 === 0 ? undefined : (round % 3) * 2 * (round % 12));
    const sums = await restore(backup, dataDir);
    rmSync(backup, { recursive: true });
    rmSync(dataDir, { recursive: true, force: true });
    if (ended) expect(sums, 'a backup that has ended is complete').toBeDefined();
    if (sums === undefined) {
      refused += 1;
      continue;
    }
    const total = [...sums.costs.values()].reduce((sum, cost) => sum + cost, 0n);
    expect(sums.balance, 'every debit has its record').toBe(funds - total);
    expect(sums.costs.size, 'what clients knew before it began is in it').toBeGreaterThanOrEqual(knownBefore);
    restored.push(sums);
  }
  isOver = true;
  await clients;
  const now = readSums(gateway.dataDir);
  for (const { costs } of restored) {
    // The ledger at one moment has every request up to some request, each with the cost that it has in the end.
    for (const [id, cost] of costs) expect(now.costs.get(id)).toBe(cost);
  }
  const sizes = restored.map(({ costs }) => costs.size);
  expect(sizes).toEqual(sizes.toSorted((a, b) => a - b));
  await expectVerified(gateway.home);
  await endGateway(gateway);
  return { complete: restored.length, refused, requests: now.costs.size };
}
