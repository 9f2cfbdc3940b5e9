import { createHash } from 'node:crypto';
import type { Attribution } from '../gen/tollgate/v1/request_pb.ts';
import { findTagFault } from '../generation/tags.ts';
import type { AdmitCommand } from '../ledger/ledger.ts';
import { invalidField } from './account-fields.ts';

const nobody: Pick<AdmitCommand, 'tags' | 'endUser'> = {};

/** A longer name of an end user is stored as its digest. */
const endUserMax = 128;

/**
 * Returns the user and tags that a request is counted under besides its key. `named`: the request's own names of its end user, in order of
 * precedence. Throws `validation_error` for invalid tags.
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

/** Returns an end user's name as records have it: a long one as its digest. */
export function storedName(name: string): string {
  return name.length <= endUserMax ? name : `sha256:${createHash('sha256').update(name).digest('hex')}`;
}
