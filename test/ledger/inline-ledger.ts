import { setImmediate as nextTurn } from 'node:timers/promises';
import { GatewayError } from '../../src/errors/gateway-error.ts';
import { ColumnStore, findColumnsFolder } from '../../src/ledger/columns/column-store.ts';
import { CommandLedger, type CommandWriter, type LedgerReader } from '../../src/ledger/command-ledger.ts';
import { prepareReads, type Reads } from '../../src/ledger/reader/reads.ts';
import { Engine } from '../../src/ledger/sqlite/engine.ts';
import { checkInvariants } from '../../src/ledger/sqlite/invariants.ts';
import { unwatched } from '../../src/ledger/sqlite/ledger-watch.ts';
import { readingFrom } from '../../src/ledger/sqlite/request-commands.ts';
import { migrateLedger } from '../../src/ledger/sqlite/schema.ts';
import type { SqliteLedger, SqliteLedgerOptions } from '../../src/ledger/sqlite/sqlite-ledger.ts';
import { ledgerPath } from '../../src/ledger/sqlite/verify.ts';
import type { WireCommand, WireReply } from '../../src/ledger/sqlite/wire.ts';
import { openForReading, openForWriting } from '../../src/lib/sqlite/database.ts';
import { checkpoint, removeLog } from '../../src/lib/sqlite/log-file.ts';

/**
 * The ledger on a SQLite file with its engine and its reads, but without the threads that run them: to start the threads takes a quarter of a second of processor time, much longer than most tests.
 * For tests of what the rules decide and what is stored. Storage that fails, syncs and the threads themselves need `openSqliteLedger`.
 */

type Options = Pick<SqliteLedgerOptions, 'dataDir' | 'clock' | 'dailyLimitUnit' | 'plans' | 'writeOffMax' | 'watch'>;

interface Waiting {
  readonly command: WireCommand;
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: unknown) => void;
}

/** Runs the commands of a turn of the event loop as one batch, as the writer's thread does. They and their replies are copied, as between threads. */
class InlineWriter implements CommandWriter {
  readonly isUnsynced = false;
  readonly #run: (batch: readonly WireCommand[]) => WireReply[];
  #waiting: Waiting[] = [];

  constructor(run: (batch: readonly WireCommand[]) => WireReply[]) {
    this.#run = run;
  }

  async send<R>(command: WireCommand, decode: (value: unknown) => R): Promise<R> {
    return decode(
      await new Promise((resolve, reject) => {
        if (this.#waiting.push({ command, resolve, reject }) === 1) setImmediate(() => this.#runWaiting());
      }),
    );
  }

  #runWaiting(): void {
    const batch = this.#waiting;
    this.#waiting = [];
    const replies = structuredClone(this.#run(structuredClone(batch.map(({ command }) => command))));
    for (const [index, { command, resolve, reject }] of batch.entries()) {
      const [outcome, value, code] = replies[index] ?? ['failed', 'no reply'];
      if (outcome === 'done') resolve(value);
      else {
        const cause = new Error(`ledger: ${command[0]}: ${outcome} ${code ?? ''} ${String(value)}`);
        reject(new GatewayError('internal', 'The gateway failed.', { cause }));
      }
    }
  }
}

/** Runs each read on a turn of its own. Arguments and results are copied, as between threads. */
class InlineReader implements LedgerReader {
  readonly #reads: Reads;
  readonly #sweep: (nowMs: number) => Promise<unknown>;

  constructor(reads: Reads, sweep: (nowMs: number) => Promise<unknown>) {
    this.#reads = reads;
    this.#sweep = sweep;
  }

  async read<N extends keyof Reads>(name: N, ...args: Parameters<Reads[N]>): Promise<ReturnType<Reads[N]>> {
    await nextTurn();
    const read = this.#reads[name] as (...values: Parameters<Reads[N]>) => ReturnType<Reads[N]>;
    return structuredClone(read(...structuredClone(args)));
  }

  async readSwept<N extends keyof Reads>(
    nowMs: number,
    name: N,
    ...args: Parameters<Reads[N]>
  ): Promise<ReturnType<Reads[N]>> {
    await nextTurn();
    if (this.#reads.needsSweep(nowMs)) await this.#sweep(nowMs);
    return this.read(name, ...args);
  }

  async close(): Promise<void> {
    // Its connection is the ledger's.
  }
}

/** Opens the ledger of a data directory, whose file must exist, in the calling thread. */
export function openInlineLedger(options: Options): SqliteLedger {
  const { dataDir, clock, dailyLimitUnit, plans, writeOffMax, watch = unwatched } = options;
  const path = ledgerPath(dataDir);
  const file = openForWriting(path, 'NORMAL');
  migrateLedger(file, clock.now(), dailyLimitUnit);
  const engine = new Engine(file, { dailyLimitUnit, plans, writeOffMax });
  const voidedHoldsAtStart = engine.recover(clock.now());
  const report = (): void => {
    for (const account of engine.takeSuspended()) watch.suspended(account);
  };
  report();
  const violationsAtStart = checkInvariants(file, 'fast');
  const writer = new InlineWriter(batch => {
    const replies = engine.run(batch);
    report();
    return replies;
  });
  const db = openForReading(path);
  const reads = prepareReads(db, plans, new ColumnStore(findColumnsFolder(path)));
  const credentialVersion = new SharedArrayBuffer(4);
  const send: CommandWriter['send'] = (command, decode) => writer.send(command, decode);
  const wroteOff = (id: number, nanoUsd: bigint): void => watch.wroteOff(id, nanoUsd);
  const ledger = new CommandLedger({
    writer,
    startReader: () => new InlineReader(reads, nowMs => writer.send(['sweep', nowMs], value => value)),
    ...readingFrom({ send, clock, db, credentialVersion, wroteOff }),
    async close() {
      await send(['sync', clock.now()], value => value);
      engine.finish();
      checkpoint(file, 'TRUNCATE');
      file.close();
      db.close();
      removeLog(path);
    },
  });
  const relay = (): never => {
    throw new Error('a ledger in one thread has no workers');
  };
  return Object.assign(ledger, { voidedHoldsAtStart, violationsAtStart, credentialVersion, relay, connect: relay });
}
