import type { Mutant } from './mutants-table.ts';

/** Mistakes in entries, the audit and closing; see `mutants-table.ts`. */
export const historyMutants: readonly Mutant[] = [
  {
    mistake: 'a move to a key is an entry of the account alone',
    file: 'rules/holds.ts',
    from: "  addEntry(rows, key.accountId, { kind: 'move', keyId: key.id, amount, balanceAfter, atMs });\n",
    to: '',
  },
  {
    mistake: 'a move to a group is an entry of the account alone',
    file: 'rules/holds.ts',
    from: "  addEntry(rows, accountId, { kind: 'move', groupId: id, amount, balanceAfter, atMs });\n",
    to: '',
  },
  {
    mistake: 'an entry has the balance before it',
    file: 'rules/holds.ts',
    from: 'addEntry(rows, account.id, { ...entry, amount, balanceAfter });',
    to: 'addEntry(rows, account.id, { ...entry, amount, balanceAfter: account.balance });',
    test: 'entries.test.ts',
  },
  {
    mistake: 'a write-off is the account’s, whoever pays',
    file: 'rules/holds.ts',
    from: "const keyId = hold.payer === 'key_balance' ? hold.keyId : null;",
    to: 'const keyId = null;',
    test: 'entries.test.ts',
  },
  {
    mistake: 'two entries of an account have the same number',
    file: 'rules/holds.ts',
    from: '  rows.accounts.put({ ...account, entries: number });\n',
    to: '',
  },
  {
    mistake: 'a row of the audit does not carry the hash of the one before',
    file: 'rules/audit.ts',
    from: 'previousHash: chain.hash',
    to: "previousHash: ''",
  },
  {
    mistake: 'the last hash of the audit is not stored',
    file: 'rules/audit.ts',
    from: '  rows.auditChains.put({ ...chain, number: row.auditId, hash });\n',
    to: '',
  },
];
