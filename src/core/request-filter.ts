import type { ListActivityRequest } from '../gen/tollgate/v1/account_pb.ts';
import type { AnalyticsFilter } from '../ledger/ledger.ts';
import { invalidField } from './account-fields.ts';
import { storedName } from './attribution.ts';

/** The filters of requests that lists and sums share. '' and 0: not filtered by that field. */
type FilterFields = Pick<
  ListActivityRequest,
  'model' | 'apiKeyId' | 'tag' | 'endUser' | 'groupId' | 'provider' | 'endpoint'
>;

/** Returns the requested filters. Throws `validation_error` if a tag is not a name and a value. */
export function readRequestFilter(fields: FilterFields): AnalyticsFilter {
  const { model, apiKeyId, tag, endUser, groupId, provider, endpoint } = fields;
  return {
    ...(model === '' ? {} : { model }),
    ...(apiKeyId === 0n ? {} : { keyId: Number(apiKeyId) }),
    ...(tag === '' ? {} : { tag: readTag(tag) }),
    ...(endUser === '' ? {} : { endUser: storedName(endUser) }),
    ...(groupId === 0n ? {} : { groupId: Number(groupId) }),
    ...(provider === '' ? {} : { provider }),
    ...(endpoint === '' ? {} : { endpoint }),
  };
}

function readTag(text: string): { name: string; value: string } {
  const at = text.indexOf(':');
  if (at < 1) throw invalidField('tag', 'must be a name and a value, for example team:search', text);
  return { name: text.slice(0, at), value: text.slice(at + 1) };
}
