import { createContext, useContext } from 'react';
import { PersonRole, type WhoAmIResponse } from '../../../gen/tollgate/v1/dashboard_pb.ts';
import { type AccountSource, makeOperatorSource, ownAccount, ownRequests, type RequestSource } from './source.ts';

/** The viewer's role. `holder`: a person who signed in with an API key, and sees only the requests of that key. */
export type ViewerRole = 'operator' | 'owner' | 'member' | 'viewer' | 'holder';

/** The signed-in person and the source of their data. */
export interface Viewer {
  readonly role: ViewerRole;
  /** How the person signed in, for people. */
  readonly subject: string;
  /** The session; 0 if there is none. */
  readonly sessionId: bigint;
  /** The account that the pages show. */
  readonly accountId: bigint;
  /** The holder's key; 0 for other roles. */
  readonly apiKeyId: bigint;
  readonly scopes: ReadonlySet<string>;
  /** The gateway's public address, without a slash at its end. */
  readonly publicUrl: string;
  readonly internalUrl: string;
  readonly isInternal: boolean;
  readonly requests: RequestSource;
  /** The account's data; absent for a holder, who manages no account. */
  readonly account?: AccountSource;
}

/** Returns the viewer; undefined if nobody is signed in. `accountId`: the account that the operator looks at. */
export function toViewer(answer: WhoAmIResponse, accountId: bigint): Viewer | undefined {
  const role = readRole(answer);
  if (role === undefined) return undefined;
  const { subject, sessionId, apiKeyId, scopes, publicUrl, internalUrl, isInternal } = answer;
  const facts = { role, subject, sessionId, apiKeyId, scopes: new Set(scopes), publicUrl, internalUrl, isInternal };
  if (role === 'holder') return { ...facts, accountId: answer.accountId, requests: ownRequests };
  const account = role === 'operator' ? makeOperatorSource(accountId) : ownAccount;
  return { ...facts, accountId: role === 'operator' ? accountId : answer.accountId, requests: account, account };
}

function readRole({ role, apiKeyId }: WhoAmIResponse): ViewerRole | undefined {
  if (role === PersonRole.OPERATOR) return 'operator';
  if (apiKeyId !== 0n) return 'holder';
  if (role === PersonRole.OWNER) return 'owner';
  if (role === PersonRole.MEMBER) return 'member';
  return role === PersonRole.VIEWER ? 'viewer' : undefined;
}

/** Returns whether the viewer has a scope of management keys for the account. The operator has all. */
export function may({ role, scopes }: Viewer, scope: string): boolean {
  return role === 'operator' || scopes.has(scope);
}

/** The signed-in person; set by the shell. */
export const ViewerContext = createContext<Viewer | undefined>(undefined);

/** Returns the signed-in person. Throws outside the shell. */
export function useViewer(): Viewer {
  const viewer = useContext(ViewerContext);
  if (viewer === undefined) throw new Error('No page is shown before the sign-in.');
  return viewer;
}

/** Returns the account that the viewer manages. Throws for a key's holder, whose pages never use it. */
export function useAccount(): AccountSource {
  const { account } = useViewer();
  if (account === undefined) throw new Error('A key’s holder manages no account.');
  return account;
}
