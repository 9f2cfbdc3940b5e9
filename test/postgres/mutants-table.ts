import type { Mutant } from '../ledger/mutants-table.ts';

/** A mistake, and the file of this folder whose tests must find it. */
export type PostgresMutant = Mutant & { readonly test: string };

/** Mistakes that an engineer could make in the PostgreSQL engine. Tests with three gateways must find each (see `mutants.ts`). */
export const postgresMutants: readonly PostgresMutant[] = [
  {
    mistake: 'rows are loaded before the lock',
    file: 'postgres/engine.ts',
    from: '    const results = await connection.run(steps);\n    let place = 1;',
    to: `    const early = loads.flatMap(load => load.steps).length;
    const [begun, ...others] = await connection.run([...steps.slice(0, 1), ...steps.slice(steps.length - early), ...steps.slice(1, steps.length - early)]);
    const results = [begun, ...others.slice(early), ...others.slice(0, early)];
    let place = 1;`,
    test: 'races.test.ts',
  },
  {
    mistake: 'accounts are read without their lock',
    file: 'postgres/engine.ts',
    from: 'ANY($1::bigint[]) ORDER BY id FOR UPDATE`',
    to: 'ANY($1::bigint[]) ORDER BY id`',
    test: 'gateways.test.ts',
  },
  {
    mistake: 'an admission never looks whether it was done before',
    file: 'postgres/engine.ts',
    from: 'if (!isRepeat && request[9] === null && this.#isNew(id)) {',
    to: 'if (request[9] === null) {',
    test: 'gateways.test.ts',
  },
  {
    mistake: 'a batch whose answer was lost is sent again as if it were new',
    file: 'postgres/batch-writer.ts',
    from: '    for (const command of batch) command.isRepeat = true;\n',
    to: '',
    test: 'gateways.test.ts',
  },
  {
    mistake: 'a command whose answer was lost is not looked up',
    file: 'postgres/engine.ts',
    from: 'if (!isRepeat) tables.applied.markAbsent',
    to: 'tables.applied.markAbsent',
    test: 'races.test.ts',
  },
  {
    mistake: 'a transaction that COMMIT answers with ROLLBACK is taken for done',
    file: '../lib/postgres/connection.ts',
    from: "if (done?.tag !== 'COMMIT')",
    to: 'if (done === undefined)',
    test: 'connection.test.ts',
  },
  {
    mistake: 'the time of a command is that of the transaction’s beginning, before it waited for the lock',
    file: 'postgres/engine.ts',
    from: 'extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now, (SELECT lease',
    to: 'extract(epoch FROM now()) * 1000)::bigint AS now, (SELECT lease',
    test: 'races.test.ts',
  },
  {
    mistake: 'holds of stopped gateways are searched only once',
    file: 'postgres/postgres-ledger.ts',
    from: '      await endLeft(this.#own);',
    to: '      if (this.#timer === undefined) await endLeft(this.#own);',
    test: 'gateways.test.ts',
  },
  {
    mistake: 'a start waits for the end of its predecessor’s lease',
    file: 'postgres/instances.ts',
    from: 'if (this.#home !== null) await',
    to: 'if (this.#home === null) await',
    test: 'gateways.test.ts',
  },
  {
    mistake: 'a start ends the lease of every gateway',
    file: 'postgres/instances.ts',
    from: "lease_until_ms = 0 WHERE home = $1::text'",
    to: "lease_until_ms = 0 WHERE home <> $1::text || $1::text'",
    test: 'gateways.test.ts',
  },
  {
    mistake: 'a hold that is gone is taken for ended now',
    file: 'postgres/batch-table.ts',
    from: 'SELECT 1 / ((SELECT count(*) FROM gone) = $${keys.length + 1}::int)::int`',
    to: 'SELECT (SELECT count(*) FROM gone), $${keys.length + 1}::int`',
    test: 'gateways.test.ts',
  },
  {
    mistake: 'a batch does not look whether its lease has ended',
    file: 'postgres/engine.ts',
    from: 'if (shared.boot !== 0 && (lease === null || Number(lease) <= Number(nowMs)))',
    to: 'if (shared.boot !== 0 && lease === null)',
    test: 'gateways.test.ts',
  },
  {
    mistake: 'a cached configuration is used whatever its version',
    file: 'postgres/account-config.ts',
    from: 'return known?.version === version ? known : undefined;',
    to: 'return known;',
    test: 'races.test.ts',
  },
  {
    mistake: 'an admission that was refused for its long wait is not voided',
    file: 'postgres/batch-writer.ts',
    from: "if (command.request[0] === 'admit' && isUnderWay) {",
    to: "if (command.request[0] === 'admit' && isUnderWay && command.isRepeat) {",
    test: 'races.test.ts',
  },
  {
    mistake: 'a refused admission is voided without the lock of its account',
    file: 'postgres/batch-writer.ts',
    from: 'const accounts = accountId === undefined ? [] : [accountId];',
    to: 'const accounts = accountId === undefined ? [] : [];',
    test: 'races.test.ts',
  },
  {
    mistake: 'every gateway delivers events',
    file: 'postgres/postgres-ledger.ts',
    from: 'return this.#isLeader ? super.listDueDeliveries(limit, resting) : [];',
    to: 'return super.listDueDeliveries(limit, resting);',
    test: 'races.test.ts',
  },
  {
    mistake: 'gateways add new names in any order',
    file: 'postgres/dictionary.ts',
    from: ' ORDER BY v.digest ON CONFLICT',
    to: ' ON CONFLICT',
    test: 'names.test.ts',
  },
  {
    mistake: 'sums of end users that a batch adds are not counted for the rest of the batch',
    file: 'postgres/sum-bounds.ts',
    from: '    this.#counts.set(dayName, count + 1);\n',
    to: '',
    test: 'names.test.ts',
  },
];
