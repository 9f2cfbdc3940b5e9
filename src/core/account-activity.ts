import { create } from '@bufbuild/protobuf';
import { GetAnalyticsRequestSchema, ListActivityRequestSchema } from '../gen/tollgate/v1/account_pb.ts';
import type { AdminService } from '../gen/tollgate/v1/admin_pb.ts';
import type { Ledger } from '../ledger/ledger.ts';
import { systemClock } from '../lib/clock.ts';
import type { PushedService } from '../lib/pushed-service.ts';
import { filterOf } from './account.ts';
import { readAnalytics } from './account-analytics.ts';
import { apiKeyOf, found, idOf, recordOf } from './account-fields.ts';

type Methods = Pick<
  PushedService<typeof AdminService>,
  'getApiKey' | 'listAccountActivity' | 'getAccountActivity' | 'getAccountAnalytics'
>;

/** What the operator sees of any account as AccountService shows it to the account itself. Unknown accounts are `not_found`. */
export function accountActivity({ ledger }: { readonly ledger: Ledger }): Methods {
  const existing = async (id: bigint): Promise<number> => {
    const accountId = idOf(id, 'account');
    return found(await ledger.findAccount(accountId), 'account', accountId).accountId;
  };
  return {
    async getApiKey({ apiKeyId }) {
      const keyId = idOf(apiKeyId, 'API key');
      return { key: apiKeyOf(found(await ledger.findKey(keyId, undefined), 'API key', keyId)) };
    },
    async listAccountActivity({ accountId, query }) {
      const filter = filterOf(query ?? create(ListActivityRequestSchema), await existing(accountId));
      return { records: (await ledger.listActivity(filter)).map(row => recordOf(row)) };
    },
    async getAccountActivity({ accountId, requestId }) {
      const activity = await ledger.findActivity(await existing(accountId), requestId);
      const { row, lines } = found(activity, 'activity record', requestId);
      return { record: recordOf(row, lines) };
    },
    async getAccountAnalytics({ accountId, query }) {
      const request = query ?? create(GetAnalyticsRequestSchema);
      return {
        analytics: await readAnalytics(
          ledger,
          { accountId: await existing(accountId) },
          { request, nowMs: systemClock.now() },
        ),
      };
    },
  };
}
