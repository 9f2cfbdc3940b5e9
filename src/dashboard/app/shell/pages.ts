import type { Viewer, ViewerRole } from '../data/viewer.ts';

/** A page in the navigation. */
export interface PageLink {
  readonly to: '/now' | '/activity' | '/next' | '/keys' | '/accounts' | '/models' | '/configuration' | '/playground';
  readonly name: string;
  readonly roles: readonly ViewerRole[];
  /** A scope that all viewers except the operator need in addition to the role; absent if the role is enough. */
  readonly scope?: string;
}

const managers: readonly ViewerRole[] = ['operator', 'owner', 'member', 'viewer'];
const everybody: readonly ViewerRole[] = [...managers, 'holder'];
/** All pages, in the order of the navigation. */
export const pages: readonly PageLink[] = [
  { to: '/now', name: 'Now', roles: everybody },
  { to: '/activity', name: 'Activity', roles: everybody },
  { to: '/next', name: 'Who pays next', roles: everybody },
  { to: '/keys', name: 'Keys', roles: managers, scope: 'keys:read' },
  { to: '/accounts', name: 'Accounts and ledger', roles: ['operator'] },
  { to: '/models', name: 'Models and prices', roles: everybody },
  { to: '/configuration', name: 'Configuration', roles: ['operator'] },
  { to: '/playground', name: 'Playground', roles: everybody },
];

/** Returns the pages that a viewer may see, in the order of the navigation. */
export function pagesFor({ role, scopes }: Viewer): readonly PageLink[] {
  return pages.filter(
    page => page.roles.includes(role) && (page.scope === undefined || role === 'operator' || scopes.has(page.scope)),
  );
}
