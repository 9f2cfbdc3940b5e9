import type { Mutant } from './mutants-table.ts';

const file = 'rules/joint-limits.ts';
const isJoint = true;

/** Mistakes in counting limits together; see `mutants-table.ts`. */
export const jointMutants: readonly Mutant[] = [
  {
    mistake: 'limits stay counted together when a window ends or one of them is changed',
    file,
    from: 'known.windows === windows && ',
    to: '',
    isJoint,
  },
  {
    mistake: 'limits stay counted together when a raise ends',
    file,
    from: 'isSame && nowMs >= known.fromMs && nowMs < known.untilMs && ',
    to: 'isSame && ',
    isJoint,
  },
  {
    mistake: 'limits stay counted together when nothing is left',
    file,
    from: ' && known.leads.every(isOpen)) return known;',
    to: ') return known;',
    test: 'limit-binding.test.ts',
  },
  { mistake: 'the loosest limit decides for all', file, from: 'difference < 0n ||', to: 'difference > 0n ||', isJoint },
  {
    mistake: 'a limit that only alerts decides for limits that refuse',
    file,
    from: 'refusing.length > 0 ? refusing : bound',
    to: 'bound',
    isJoint,
  },
  {
    mistake: 'limits that apply to each end user are counted together',
    file,
    from: "endUsers === 'all' && ",
    to: '',
    isJoint,
  },
  { mistake: 'limits of some models are counted together', file, from: 'models === null && ', to: '', isJoint },
  { mistake: 'rolling minutes are counted together', file, from: " && per !== 'minute'", to: '', isJoint },
  {
    mistake: 'only the tightest limit keeps its count afterwards',
    file,
    from: 'for (const { use } of listOfLead(lead)) rows',
    to: 'for (const { use } of [lead]) rows',
    isJoint,
  },
  {
    mistake: 'the other limits miss what the tightest has counted since',
    file,
    from: 'used: use.used - base.used',
    to: 'used: use.used',
    isJoint,
  },
  {
    mistake: 'the first of several refusing limits is not determined',
    file: 'rules/windows.ts',
    from: 'listEach(bound).filter(',
    to: 'bound.filter(',
    isJoint,
  },
  {
    mistake: 'stored uses are trusted after a crash',
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
