import type { GroupSettings } from '../../src/ledger/ledger.ts';
import type { ModelAccount, ModelGroup, ModelKey } from './model-types.ts';

/** The parts of the reference model that groups need. */
interface Owners {
  readonly accounts: ReadonlyMap<number, ModelAccount>;
  readonly keys: readonly ModelKey[];
  held(of: { account: number } | { group: number }): bigint;
}

/** How many levels of groups an account may have. */
const depthMax = 5;

type Refusal = 'not_found' | 'no_group' | 'insufficient' | 'conflict';

/** The groups of the simple reference model that the ledger is compared with. */
export class GroupBook {
  readonly all: ModelGroup[] = [];
  readonly #owners: Owners;

  constructor(owners: Owners) {
    this.#owners = owners;
  }

  /** Returns a group and the groups above it, nearest first. */
  findPath(groupId: number | null): number[] {
    const group = this.all.find(({ id }) => id === groupId);
    return group === undefined ? [] : [group.id, ...this.findPath(group.parent)];
  }

  find(groupId: number, accountId: number | undefined): ModelGroup | undefined {
    return this.all.find(
      group => group.id === groupId && !group.removed && (accountId === undefined || group.accountId === accountId),
    );
  }

  /** Returns the nearest group with a balance. */
  findPayer(groupId: number | null): number | undefined {
    return this.findPath(groupId).find(each => this.all.some(({ id, balance }) => id === each && balance !== null));
  }

  create(accountId: number, { parentId = null, balance = null }: GroupSettings): number | Refusal {
    const account = this.#owners.accounts.get(accountId);
    if (account === undefined) return 'not_found';
    if (parentId !== null && this.find(parentId, accountId) === undefined) return 'no_group';
    if (this.findPath(parentId).length === depthMax) return 'conflict';
    if ((balance ?? 0n) > account.balance - this.#owners.held({ account: accountId })) return 'insufficient';
    account.balance -= balance ?? 0n;
    const id = this.all.length + 1;
    this.all.push({ id, accountId, parent: parentId, balance, removed: false });
    return id;
  }

  update(groupId: number, accountId: number | undefined, settings: GroupSettings): number | Refusal {
    const group = this.find(groupId, accountId);
    const account = this.#owners.accounts.get(group?.accountId ?? 0);
    if (group === undefined || account === undefined) return 'not_found';
    const { parentId, balance } = settings;
    if (typeof parentId === 'number') {
      if (this.find(parentId, group.accountId) === undefined) return 'no_group';
      // The number of levels below the group.
      const deepest = Math.max(...this.all.map(({ id }) => this.findPath(id).indexOf(groupId)));
      if (this.findPath(parentId).includes(groupId) || this.findPath(parentId).length + deepest + 1 > depthMax)
        return 'conflict';
    }
    if (balance !== undefined) {
      const more = (balance ?? 0n) - (group.balance ?? 0n);
      const held = this.#owners.held({ group: groupId });
      if (more > 0n && more > account.balance - this.#owners.held({ account: group.accountId })) return 'insufficient';
      if (more < 0n && -more > (group.balance ?? 0n) - held) return 'insufficient';
      account.balance -= more;
      group.balance = balance;
    }
    if (parentId !== undefined) group.parent = parentId;
    return groupId;
  }

  remove(groupId: number, accountId: number | undefined): number | Refusal {
    const group = this.find(groupId, accountId);
    if (group === undefined) return 'not_found';
    const hasGroups = this.all.some(({ parent, removed }) => parent === groupId && !removed);
    const hasKeys = this.#owners.keys.some(key => key.groupId === groupId && key.state !== 'revoked');
    if (hasGroups || hasKeys) return 'conflict';
    group.removed = true;
    this.sendBack();
    return groupId;
  }

  /** Moves the money of removed groups back to their accounts, except what is held. */
  sendBack(): void {
    for (const group of this.all) {
      const account = this.#owners.accounts.get(group.accountId);
      if (!group.removed || group.balance === null || account === undefined) continue;
      const kept = this.#owners.held({ group: group.id });
      account.balance += group.balance - kept;
      group.balance = kept;
    }
  }
}
