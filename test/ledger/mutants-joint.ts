import type { Mutant } from './mutants-table.ts';

const file = 'rules/joint-limits.ts';
const isJoint = true;

/** Mistakes in counting limits together; see `mutants-table.ts`. */
export const jointMutants: readonly Mutant[] = [
  {
    mistake: 'limits stay together when a window ends or one of them is changed',
    file,
    from: 'known.windows === windows && ',
    to: '',
    isJoint,
  },
  {
    mistake: 'limits stay together when a raise ends',
    file,
    from: 'isSame && nowMs >= known.fromMs && nowMs < known.untilMs && ',
    to: 'isSame && ',
    isJoint,
  },
  {
    mistake: 'limits stay together when nothing is left',
    file,
    from: ' && known.leads.every(isOpen)) return known;',
    to: ') return known;',
    test: 'limit-binding.test.ts',
  },
  { mistake: 'the loosest decides for all', file, from: 'more < 0n ||', to: 'more > 0n ||', isJoint },
  {
    mistake: 'one that only alerts decides for those that refuse',
    file,
    from: 'refusing.length > 0 ? refusing : bound',
    to: 'bound',
    isJoint,
  },
  { mistake: 'limits of each end user count together', file, from: "endUsers === 'all' && ", to: '', isJoint },
  { mistake: 'limits of some models count together', file, from: 'models === null && ', to: '', isJoint },
  { mistake: 'rolling minutes count together', file, from: " && per !== 'minute'", to: '', isJoint },
  {
    mistake: 'only the tightest keeps what was counted',
    file,
    from: 'for (const { use } of listOfLead(lead)) rows',
    to: 'for (const { use } of [lead]) rows',
    isJoint,
  },
  {
    mistake: 'what others count is not what the tightest has counted since',
    file,
    from: 'used: use.used - base.used',
    to: 'used: use.used',
    isJoint,
  },
  {
    mistake: 'which of those that refuse comes first is not looked for',
    file: 'rules/windows.ts',
    from: 'listEach(bound).filter(',
    to: 'bound.filter(',
    isJoint,
  },
  {
    mistake: 'stored uses are taken for true after a crash',
    file,
    from: '  for (const { use } of leads) rows.limitUses.put(use);\n',
    to: '',
    isJoint,
  },
  {
    mistake: 'a batch that was not stored stays counted',
    file: 'sqlite/stored-rows.ts',
    from: '    for (const scopes of Object.values(this.joint)) scopes.clear();\n',
    to: '',
    isJoint,
  },
  {
    mistake: 'a limit whose models change counts what it counted before',
    file: 'sqlite/stored-rows.ts',
    from: '    if (limit !== undefined) separate(this, limit.scope, limit.scopeId);\n',
    to: '',
    isJoint,
  },
];
