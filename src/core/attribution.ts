import { createHash } from 'node:crypto';
import type { Attribution } from '../gen/tollgate/v1/request_pb.ts';
import { findTagFault } from '../generation/tags.ts';
import type { AdmitCommand } from '../ledger/ledger.ts';
import { invalidField } from './account-fields.ts';

const nobody: Pick<AdmitCommand, 'tags' | 'endUser'> = {};

/** The longest name of an end user that is stored as it is; of a longer one, the SHA-256 hash is stored. */
const endUserMax = 128;

/**
 * Returns the end user and the tags under which a request is counted in addition to its key. `named`: the values of the request's fields that name its end user, in order of precedence; they are used if `attribution` has none. Throws `validation_error` for invalid tags.
 */
export function readAttribution(
  attribution: Attribution | undefined,
  ...named: readonly (string | undefined)[]
): Pick<AdmitCommand, 'tags' | 'endUser'> {
  const requested = attribution?.endUser ?? '';
  const endUser = requested === '' ? named.find(name => name !== undefined && name !== '') : requested;
  if (attribution === undefined && endUser === undefined) return nobody;
  const tags = attribution?.tags ?? {};
  const fault = findTagFault(tags);
  if (fault !== undefined) throw invalidField('attribution.tags', fault);
  return {
    ...(endUser === undefined ? {} : { endUser: storedName(endUser) }),
    ...(Object.keys(tags).length === 0 ? {} : { tags }),
  };
}

/** Returns an end user's name as it is stored in records: a long one as its hash. */
export function storedName(name: string): string {
  return name.length <= endUserMax ? name : `sha256:${createHash('sha256').update(name).digest('hex')}`;
}
