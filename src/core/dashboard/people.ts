import type { SessionRole } from '../../ledger/ledger.ts';
import type { SignedIn } from './sessions.ts';

/** Matches an identity provider's claims. */
export interface PersonRule {
  readonly claim: string;
  /** The claim's value, or one of its values if it is a list; `*` matches any text. */
  readonly value: string;
  readonly role: SessionRole;
  /** null: the operator's. */
  readonly accountId: number | null;
}

/** Returns a person's role and accounts by the first rule that matches the claims; undefined if none does. */
export function findPerson(
  claims: Readonly<Record<string, unknown>>,
  rules: readonly PersonRule[],
): SignedIn | undefined {
  const rule = rules.find(each => fits(claims, each));
  if (rule === undefined) return undefined;
  const { role, accountId } = rule;
  return { role, accountId, keyHash: null, subject: readName(claims) };
}

function fits(claims: Readonly<Record<string, unknown>>, { claim, value }: PersonRule): boolean {
  // An address that the provider has not verified could be anyone's.
  if (claim === 'email' && claims['email_verified'] === false) return false;
  const claimed = claims[claim];
  const pattern = new RegExp(`^${value.split('*').map(escape).join('.*')}$`, 's');
  return (Array.isArray(claimed) ? (claimed as unknown[]) : [claimed]).some(
    each =>
      (typeof each === 'string' || typeof each === 'number' || typeof each === 'boolean') && pattern.test(String(each)),
  );
}

/** Returns a text as a pattern that fits it alone. */
function escape(text: string): string {
  return text.replaceAll(/[\\^$.*+?()[\]{}|]/g, String.raw`\$&`);
}

/** Returns a name for people and the audit: the address or name, else the provider's id; at most 200 characters. */
function readName(claims: Readonly<Record<string, unknown>>): string {
  const named = [claims['email'], claims['preferred_username'], claims['name'], claims['sub']];
  const name = named.find((each): each is string => typeof each === 'string' && each !== '');
  return (name ?? 'somebody').slice(0, 200);
}
