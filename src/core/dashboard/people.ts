import { compilePattern } from '../../lib/text-pattern.ts';
import type { SessionRole } from '../../ledger/ledger.ts';
import type { SignedIn } from './sessions.ts';

/** A rule of the configuration: a person with this claim gets this role and account. */
export interface PersonRule {
  readonly claim: string;
  /** The claim's value, or one of its values if it is a list; `*` matches any text. */
  readonly value: string;
  readonly role: SessionRole;
  /** The person's account; null: the person is an operator. */
  readonly accountId: number | null;
}

/** Returns the role and account that the first matching rule gives to a person; undefined if no rule matches the claims. */
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
  if (claim === 'email' && claims['email_verified'] !== true) return false;
  const claimed = claims[claim];
  const matches = compilePattern(value);
  return (Array.isArray(claimed) ? (claimed as unknown[]) : [claimed]).some(
    each =>
      (typeof each === 'string' || typeof each === 'number' || typeof each === 'boolean') && matches(String(each)),
  );
}

/**
 * Returns the name that is shown and recorded in the audit log: the person's id at the identity provider, which nobody else can have, and beside it the e-mail address if it is verified;
 * at most 200 characters.
 */
function readName(claims: Readonly<Record<string, unknown>>): string {
  const email = claims['email_verified'] === true ? claims['email'] : undefined;
  const named = [claims['sub'], email].filter((each): each is string => typeof each === 'string' && each !== '');
  return named.join(', ').slice(0, 200);
}
