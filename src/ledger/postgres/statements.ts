import type { ColumnTypes } from './column-types.ts';
import { TableStatements } from './batch-table.ts';
import * as tables from '../sqlite/tables.ts';
import { sumColumns, sumKeyCount } from '../sqlite/sum-raises.ts';
import type { Hold } from '../rows.ts';

/** The column of a hold with the `Instance.boot` of its gateway, whose holds are ended if it dies. NULL for a hold of another service (AccountingService), because that hold has its own expiry and survives restarts. */
export const bootColumn = (boot: number) => ({
  name: 'boot',
  value: ({ expiresAtMs }: Hold): number | null => (expiresAtMs === null ? boot : null),
});

/** The statements of each table, and those that add to the sums of records. */
export type LedgerStatements = ReturnType<typeof makeStatements>;

/** Makes the statements of all tables. */
export function makeStatements(types: ColumnTypes) {
  const arrays = sumColumns.map((name, index) => `$${index + 1}::${types.get(`usage_sum.${name}`) ?? 'int8'}[]`);
  const [keys, amounts] = [sumColumns.slice(0, sumKeyCount), sumColumns.slice(sumKeyCount)];
  const raised = (by: string): string => amounts.map(name => `${name} = t.${name} + ${by}.${name}`).join(', ');
  return {
    account: new TableStatements(tables.accountTable, types),
    key: new TableStatements(tables.keyTable, types),
    managementKey: new TableStatements(tables.managementKeyTable, types),
    session: new TableStatements(tables.sessionTable, types),
    keyDay: new TableStatements(tables.keyDayTable, types),
    planDay: new TableStatements(tables.planDayTable, types),
    group: new TableStatements(tables.groupTable, types),
    limit: new TableStatements(tables.limitTable, types),
    limitUse: new TableStatements(tables.limitUseTable, types),
    // Only the name of the column is used here, not its value.
    hold: new TableStatements(tables.holdTable, types, [bootColumn(0)]),
    usage: new TableStatements(tables.usageTable, types),
    voided: new TableStatements(tables.voidedTable, types),
    subscription: new TableStatements(tables.subscriptionTable, types),
    period: new TableStatements(tables.periodTable, types),
    counter: new TableStatements(tables.counterTable, types),
    applied: new TableStatements(tables.appliedTable, types),
    webhook: new TableStatements(tables.webhookTable, types),
    event: new TableStatements(tables.eventTable, types),
    delivery: new TableStatements(tables.deliveryTable, types),
    eventMark: new TableStatements(tables.eventMarkTable, types),
    entry: new TableStatements(tables.entryTable, types),
    audit: new TableStatements(tables.auditTable, types),
    auditChain: new TableStatements(tables.auditChainTable, types),
    secret: new TableStatements(tables.secretTable, types),
    addSums: `INSERT INTO usage_sum AS t (${sumColumns.join(', ')}) SELECT * FROM unnest(${arrays.join(', ')})
      ON CONFLICT (${keys.join(', ')}) DO UPDATE SET ${raised('excluded')}`,
    // For sums that exist: writes half as much to the log as the statement above, which locks each row first. Divides by 0, which fails, if one of them does not exist.
    raiseSums: `WITH done AS (UPDATE usage_sum t SET ${raised('v')} FROM unnest(${arrays.join(', ')}) AS v(${sumColumns.join(', ')})
      WHERE ${keys.map(key => `t.${key} = v.${key}`).join(' AND ')} RETURNING 1) SELECT 1 / ((SELECT count(*) FROM done) = $${sumColumns.length + 1}::int)::int`,
  };
}
