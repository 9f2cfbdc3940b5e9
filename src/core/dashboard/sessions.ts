import type { MessageInitShape } from '@bufbuild/protobuf';
import { GatewayError } from '../../errors/gateway-error.ts';
import type { AdminService } from '../../gen/tollgate/v1/admin_pb.ts';
import {
  type DashboardService,
  PersonRole,
  type SessionSchema,
  type WhoAmIResponseSchema,
} from '../../gen/tollgate/v1/dashboard_pb.ts';
import type { Credential, Ledger, NewSession, SessionRole, SessionRow } from '../../ledger/ledger.ts';
import { dashboardListenerHeader } from '../../lib/call-headers.ts';
import type { Clock } from '../../lib/clock.ts';
import type { PushedService } from '../../lib/pushed-service.ts';
import { requireRow, readId } from '../account-fields.ts';
import { authenticate, type Caller, type CredentialPort } from '../credential.ts';
import { hashKey, keyPrefixes, makeKey } from '../keys.ts';
import { roleScopes } from '../session-access.ts';
import type { SignInLinks } from './sign-in-links.ts';

/** The options of sessions. */
export interface SessionOptions {
  readonly ledger: CredentialPort & Pick<Ledger, 'createSession' | 'listSessions' | 'endSession'>;
  readonly clock: Clock;
  readonly links: SignInLinks;
  readonly publicUrl: () => string;
  /** Returns the URL of the internal listener, without a slash at its end. */
  readonly internalUrl: () => string;
  /** Returns true if people can sign in with an identity provider (not a provider of models). */
  readonly hasProvider: () => boolean;
}

/** The maximum lifetime of a session. */
export const sessionMs = 12 * 3_600_000;
/** The lifetime of a sign-in link. */
const linkMs = 10 * 60_000;

const roles: Readonly<Record<SessionRole, PersonRole>> = {
  operator: PersonRole.OPERATOR,
  owner: PersonRole.OWNER,
  member: PersonRole.MEMBER,
  viewer: PersonRole.VIEWER,
};

/** A person whose identity has been verified. */
export type SignedIn = Omit<NewSession, 'hash' | 'endsAtMs'>;

/** Creates a session. Returns its token, of which only the hash is stored. */
export async function openSession(
  { ledger, clock }: Pick<SessionOptions, 'ledger' | 'clock'>,
  person: SignedIn,
): Promise<string> {
  const { text, hash } = makeKey('session');
  requireRow(
    await ledger.createSession({ ...person, hash, endsAtMs: clock.now() + sessionMs }),
    'account',
    person.accountId ?? 0,
  );
  return text;
}

type Methods = Pick<PushedService<typeof DashboardService>, 'signIn' | 'signOut' | 'whoAmI'>;

/** Implements the calls of DashboardService about who is signed in. */
export function sessions(options: SessionOptions): Methods {
  const { ledger } = options;
  const describe = async (caller: Caller) => toWhoAmI(await authenticate(caller, ledger, 'any_key'), options, caller);
  return {
    async signIn({ credential: text }, context) {
      const session = await openSession(options, await identify(text.trim(), options));
      return { session, identity: toWhoAmI(await lookUp(session, ledger), options, context) };
    },
    async signOut(_request, context) {
      const { session } = await authenticate(context, ledger, 'any_key');
      if (session === undefined) throw new GatewayError('invalid_request', 'The credential is not a session.');
      await ledger.endSession(session);
      return {};
    },
    async whoAmI(_request, context) {
      const { requestHeader } = context;
      const isAnonymous = !requestHeader.has('authorization') && !requestHeader.has('x-api-key');
      return isAnonymous ? publicFields(options, context) : describe(context);
    },
  };
}

/** Implements the calls of AdminService about sign-in links and sessions. */
export function sessionAdmin({
  ledger,
  links,
  internalUrl,
}: SessionOptions): Pick<PushedService<typeof AdminService>, 'createSignInLink' | 'listSessions' | 'revokeSession'> {
  return {
    createSignInLink: () => {
      const { token, endsAtMs } = links.make(linkMs);
      return { url: signInUrl(internalUrl(), token), expiresAtMs: BigInt(endsAtMs) };
    },
    async listSessions({ accountId }) {
      const rows = await ledger.listSessions(accountId === 0n ? undefined : Number(accountId));
      return { sessions: rows.map(toSession) };
    },
    async revokeSession({ sessionId: id }) {
      const sessionId = readId(id, 'session');
      return { session: toSession(requireRow(await ledger.endSession({ sessionId }), 'session', sessionId)) };
    },
  };
}

/**
 * Returns the URL of a sign-in link. The token is in the fragment, which browsers do not send to servers; the page sends it with `SignIn`.
 */
export function signInUrl(origin: string, token: string): string {
  return `${origin}/dashboard/sign-in#token=${token}`;
}

/** Returns the person whom a sign-in link or a key identifies. Throws `invalid_api_key`, and the errors of `authenticate`. */
async function identify(text: string, { ledger, links }: SessionOptions): Promise<SignedIn> {
  const hash = hashKey(text);
  if (text.startsWith(keyPrefixes.signInLink)) {
    if (links.take(hash)) return { role: 'operator', accountId: null, keyHash: null, subject: 'sign-in link' };
    throw new GatewayError('invalid_api_key', 'The sign-in link was already used, or it has expired.', {
      tip: 'Create a new one: npx tollgate dashboard.',
    });
  }
  if (!text.startsWith(keyPrefixes.apiKey) && !text.startsWith(keyPrefixes.managementKey)) {
    throw new GatewayError('invalid_api_key', 'This is not a key.', {
      tip: 'Sign in with an API key (sk-tg-…) or a management key (mk-tg-…). Operators sign in with a link: npx tollgate dashboard.',
    });
  }
  const key = await lookUp(text, ledger);
  return { role: keyRole(key), accountId: key.accountId, keyHash: hash, subject: keySubject(key) };
}

/** Returns the credential of this text, which is a key or a session's token. Throws the errors of `authenticate`. */
async function lookUp(text: string, ledger: CredentialPort): Promise<Credential> {
  return authenticate({ requestHeader: new Headers({ authorization: `Bearer ${text}` }) }, ledger, 'any_key');
}

/** Returns the role that is shown for a key, or for a session that was opened with one. It permits nothing: such a session has the `kind` and the scopes of its key. */
function keyRole({ kind, scopes }: Credential): SessionRole {
  if (kind === 'api_key') return 'member';
  return scopes.every(scope => roleScopes.viewer.some(each => each === scope)) ? 'viewer' : 'owner';
}

function keySubject({ kind, keyId }: Credential): string {
  return `${kind === 'api_key' ? 'API key' : 'management key'} ${keyId}`;
}

/** Returns the fields of `WhoAmI` that need no credential; the sign-in page gets only these. */
function publicFields(
  { publicUrl, hasProvider }: Pick<SessionOptions, 'publicUrl' | 'hasProvider'>,
  caller: Caller,
): MessageInitShape<typeof WhoAmIResponseSchema> {
  return {
    publicUrl: publicUrl(),
    isInternal: caller.requestHeader.get(dashboardListenerHeader) !== 'public',
    hasProvider: hasProvider(),
  };
}

function toWhoAmI(
  credential: Credential,
  { publicUrl, internalUrl, hasProvider }: SessionOptions,
  caller: Caller,
): MessageInitShape<typeof WhoAmIResponseSchema> {
  const { kind, keyId, accountId, session, expiresAtMs } = credential;
  const role = session?.role ?? keyRole(credential);
  return {
    role: roles[role],
    subject: session?.subject ?? keySubject(credential),
    accountId: BigInt(accountId),
    apiKeyId: kind === 'api_key' ? BigInt(keyId) : 0n,
    scopes: kind === 'session' ? [...roleScopes[role]] : [...credential.scopes],
    sessionId: BigInt(session?.sessionId ?? 0),
    ...(expiresAtMs === undefined ? {} : { expiresAtMs: BigInt(expiresAtMs) }),
    ...publicFields({ publicUrl, hasProvider }, caller),
    internalUrl: internalUrl(),
  };
}

function toSession(row: SessionRow): MessageInitShape<typeof SessionSchema> {
  return {
    sessionId: BigInt(row.sessionId),
    role: roles[row.role],
    subject: row.subject,
    accountId: BigInt(row.accountId ?? 0),
    createdAtMs: BigInt(row.createdAtMs),
    expiresAtMs: BigInt(row.endsAtMs),
  };
}
