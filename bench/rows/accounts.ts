import { mkdtempSync, rmSync } from 'node:fs';
import { Agent, request } from 'node:http';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { allScopes } from '../../src/core/credential.ts';
import { makeKey } from '../../src/core/keys.ts';
import { isoTime, systemClock } from '../../src/lib/clock.ts';
import { openSqliteLedger } from '../../src/ledger/sqlite/sqlite-ledger.ts';
import { verifyLedgerFile } from '../../src/ledger/sqlite/verify.ts';
import { plans } from '../../test/ledger/fixture.ts';
import { fillAccounts, fillRecords, makeRequestId, rows } from '../ledger.ts';
import { Started } from '../process.ts';
import { type Row, type Settings, formatNumber } from '../row.ts';
import { median, percentile } from '../statistics.ts';

const main = resolve(import.meta.dirname, '../../bin/tollgate.js');
/** The hardest case: all records belong to one account. */
const shape = { accounts: 1, keys: 100, models: 50 };
const requestsEach = 200;
const dayMs = 86_400_000;

/** A call of an account endpoint. */
interface Call {
  readonly method: 'GET' | 'POST' | 'PATCH' | 'DELETE';
  readonly path: string;
  readonly body?: object;
}

/** A measurement: calls whose times are reported together. */
interface Measured {
  readonly what: string;
  readonly targetMs: number;
  readonly next: () => Call;
}

const get = (what: string, path: string, targetMs = 5): Measured => ({
  what,
  targetMs,
  next: () => ({ method: 'GET', path }),
});

/** Returns measurements of activity pages with every filter: the newest page, and the page that ends with the 10,000th matching record. */
function activity(nowMs: number): Measured[] {
  const month = `start=${isoTime(nowMs - 60 * dayMs)}&end=${isoTime(nowMs - 30 * dayMs)}`;
  const filters = {
    'no filter': '',
    model: 'model=acme/7',
    key: 'api_key_id=7',
    'model and key': 'model=acme/7&api_key_id=7',
    time: month,
    'model and time': `model=acme/7&${month}`,
    'key and time': `api_key_id=7&${month}`,
    'model, key and time': `model=acme/7&api_key_id=7&${month}`,
  };
  return Object.entries(filters).flatMap(([name, query]) => [
    get(`activity, ${name}: newest 100`, `/activity?${query}`),
    get(`activity, ${name}: up to the 10,000th`, `/activity?offset=9900&${query}`),
  ]);
}

function measured(nowMs: number): Measured[] {
  let changes = 0;
  let nextDeleted = shape.keys;
  return [
    get('keys of an account with 100', '/keys'),
    {
      what: 'key made',
      targetMs: 5,
      next: () => ({ method: 'POST', path: '/keys', body: { label: 'bench' } }),
    },
    get('key', '/keys/7'),
    {
      what: 'key changed',
      targetMs: 5,
      next: () => ({ method: 'PATCH', path: '/keys/7', body: { label: `change ${(changes += 1)}` } }),
    },
    {
      what: 'key deleted',
      targetMs: 5,
      // The records that were just made, whose ids are above all others.
      next: () => ({ method: 'DELETE', path: `/keys/${(nextDeleted += 1)}` }),
    },
    get('balance', '/balance'),
    ...activity(nowMs),
    get('activity, one record with its arithmetic', `/activity/${makeRequestId(rows / 2)}`),
    get('analytics, 30 days', '/analytics', 50),
    get('analytics, 30 days by model', '/analytics?group_by=model', 50),
    get('analytics, 30 days by key', '/analytics?group_by=api_key', 50),
    get('analytics, 30 days by the hour', '/analytics?granularity=hour', 50),
  ];
}

/** A client with one connection. */
class Client {
  readonly #agent = new Agent({ keepAlive: true, maxSockets: 1 });
  readonly #origin: URL;
  readonly #key: string;

  constructor(origin: string, key: string) {
    this.#origin = new URL(origin);
    this.#key = key;
  }

  /** Makes a call, and returns how long it took, in ms. Throws if it failed. */
  call({ method, path, body }: Call): Promise<number> {
    const sent = body === undefined ? undefined : JSON.stringify(body);
    const began = performance.now();
    return new Promise((done, failed) => {
      const calling = request(
        {
          agent: this.#agent,
          host: this.#origin.hostname,
          port: this.#origin.port,
          method,
          path: `/v1/account${path}`,
          headers: {
            authorization: `Bearer ${this.#key}`,
            ...(sent === undefined
              ? {}
              : { 'content-type': 'application/json', 'content-length': Buffer.byteLength(sent) }),
          },
        },
        answer => {
          answer.resume();
          answer.once('end', () => {
            if (answer.statusCode === 200) done(performance.now() - began);
            else failed(new Error(`${method} ${path} answered ${answer.statusCode ?? 'nothing'}`));
          });
        },
      );
      calling.once('error', failed);
      calling.end(sent);
    });
  }

  close(): void {
    this.#agent.destroy();
  }
}

/** Fills a data directory with a million records. Returns a management key that may read them. */
async function fill(dataDir: string): Promise<string> {
  const ledger = await openSqliteLedger({ dataDir, clock: systemClock, dailyLimitUnit: 'dollars', plans });
  await fillAccounts(ledger, shape);
  const { text, hash, masked } = makeKey('managementKey');
  await ledger.createManagementKey({ accountId: 1, hash, masked, scopes: [...allScopes] });
  await ledger.close();
  fillRecords(dataDir, shape);
  return text;
}

/** Measures how long every account endpoint takes over HTTP, for an account with a million records. */
export async function accounts({ rounds }: Settings): Promise<Row[]> {
  const folder = mkdtempSync(join(tmpdir(), 'tollgate-bench-'));
  const dataDir = join(folder, 'data');
  try {
    const key = await fill(dataDir);
    const gateway = new Started({
      args: [main, 'serve'],
      core: 0,
      env: { TOLLGATE_DATA_DIR: dataDir, TOLLGATE_PORT: '0', TOLLGATE_RPC_PORT: '0' },
    });
    const client = new Client(await gateway.printed(/^\s*public\s+(http:\S+)/m), key);
    const all = measured(systemClock.now()).map(each => ({ ...each, runs: [] as number[][], cpuMs: 0 }));
    // The rounds of all calls alternate, so that other load on the machine affects all of them.
    for (let round = 0; round < rounds; round += 1) {
      for (const each of all) {
        const cpuBefore = gateway.cpu().totalMs;
        each.runs.push(await measureTimes(client, each));
        each.cpuMs += (gateway.cpu().totalMs - cpuBefore) / (rounds * requestsEach);
      }
    }
    client.close();
    await gateway.stop();
    const violations = verifyLedgerFile(dataDir);
    if (violations.length > 0) throw new Error(violations.join('\n'));
    return all.map(toRow);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Runs a round, and returns how long its calls took, in ms, shortest first. */
async function measureTimes(client: Client, { next }: Measured): Promise<number[]> {
  const took: number[] = [];
  for (let count = 0; count < requestsEach; count += 1) took.push(await client.call(next()));
  return took.sort((a, b) => a - b);
}

/** The rounds of a measurement. */
interface Runs extends Measured {
  readonly runs: readonly number[][];
  readonly cpuMs: number;
}

/** Returns a row with the medians of the rounds' percentiles, and with the gateway's CPU time per answer, which other work on the machine changes little. */
function toRow({ what, targetMs, runs, cpuMs }: Runs): Row {
  const p50 = median(runs.map(took => percentile(took, 0.5)));
  const p99 = median(runs.map(took => percentile(took, 0.99)));
  return {
    what: `account: ${what}`,
    measured: `p50 ${formatNumber(p50)} ms, p99 ${formatNumber(p99)} ms (${formatNumber(cpuMs)} ms of CPU)`,
    target: `under ${targetMs} ms`,
    reached: p99 < targetMs,
  };
}
