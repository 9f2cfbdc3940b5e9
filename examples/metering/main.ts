/**
 * An example of a service that charges for its work: it compresses files and charges an account by the byte. The gateway checks the account's key, limits
 * and money, and knows nothing about the files. docs/metering.md explains it.
 *
 *     node examples/metering/main.ts --api-key-id 1 FROM TO
 *
 * FROM may be `-`, the standard input. Without FROM and TO, it only charges or releases what an earlier run has left. It prints a JSON line for each piece of work.
 */
import { createReadStream, createWriteStream, existsSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { pipeline } from 'node:stream/promises';
import { parseArgs } from 'node:util';
import { createGzip } from 'node:zlib';
import { Journal } from './journal.ts';
import { createAccounting, type Cover, readDetail, type Ended, Meter } from './meter.ts';

/** The price is one cent a megabyte. It is held a megabyte at a time, because the length of the input is known only at its end. */
const nanoUsdPerByte = 10n;
const sliceNanoUsd = 10_000_000n;

const { values, positionals } = parseArgs({
  options: {
    gateway: { type: 'string', default: 'http://127.0.0.1:9090' },
    'token-file': { type: 'string', default: 'data/operator.token' },
    'api-key-id': { type: 'string', default: '1' },
    journal: { type: 'string', default: 'metering.journal' },
    // All services of a gateway share the ids below 2^52; each has a range of 2^40 ids.
    service: { type: 'string', default: '7' },
  },
  allowPositionals: true,
});

const partPath = (target: string): string => `${target}.part`;

/** Compresses `from` into a temporary file beside `target`. Returns the cost. */
async function compress(from: string, target: string, cover: Cover): Promise<bigint> {
  let costNanoUsd = 0n;
  async function* counted(input: AsyncIterable<Buffer>): AsyncIterable<Buffer> {
    for await (const piece of input) {
      costNanoUsd += BigInt(piece.length) * nanoUsdPerByte;
      await cover(costNanoUsd);
      yield piece;
    }
  }
  const input = from === '-' ? process.stdin : createReadStream(from);
  await pipeline(input, counted, createGzip(), createWriteStream(partPath(target)));
  return costNanoUsd;
}

/** Gives the file its final name if the work was paid, and deletes it otherwise. Prints the result. */
function deliver({ id, target, state, costNanoUsd, writtenOffNanoUsd }: Ended): void {
  const part = partPath(target);
  if (state !== 'settled') rmSync(part, { force: true });
  else if (existsSync(part)) renameSync(part, target);
  const [cost, writtenOff] = [Number(costNanoUsd), Number(writtenOffNanoUsd)];
  console.log(JSON.stringify({ id: Number(id), target, state, cost_nano_usd: cost, written_off_nano_usd: writtenOff }));
}

const journal = new Journal(values.journal, BigInt(values.service) << 40n);
const accounting = createAccounting(values.gateway, readFileSync(values['token-file'], 'utf8').trim());
const meter = new Meter({ accounting, journal, deliver });
try {
  await meter.recover();
  const [from, target] = positionals;
  if (from !== undefined && target !== undefined) {
    const order = { apiKeyId: BigInt(values['api-key-id']), model: 'examples/gzip', sliceNanoUsd };
    await meter.run(target, order, cover => compress(from, target, cover));
  }
} catch (error) {
  const { code, message, tip } = readDetail(error) ?? { code: 'failed', message: `${String(error)}`, tip: '' };
  console.error(JSON.stringify({ code, message, tip }));
  process.exitCode = 1;
} finally {
  journal.close();
}
