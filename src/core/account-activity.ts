import { create } from '@bufbuild/protobuf';
import { GetAnalyticsRequestSchema, ListActivityRequestSchema } from '../gen/tollgate/v1/account_pb.ts';
import type { AdminService } from '../gen/tollgate/v1/admin_pb.ts';
import type { Ledger } from '../ledger/ledger.ts';
import { systemClock } from '../lib/clock.ts';
import { defined } from '../lib/defined.ts';
import type { PushedService } from '../lib/pushed-service.ts';
import { readFilter } from './account.ts';
import type { BodyStore } from './bodies/body-store.ts';
import { readAnalytics } from './account-analytics.ts';
import { toApiKey, requireRow, readId, toOperatorRecord } from './account-fields.ts';

type Methods = Pick<
  PushedService<typeof AdminService>,
  'getApiKey' | 'listAccountActivity' | 'getAccountActivity' | 'getAccountRequestBodies' | 'getAccountAnalytics'
>;

/** The operator's view of any account: what AccountService shows of it, plus what each request cost at its provider. Unknown accounts are `not_found`. */
export function accountActivity({ ledger, bodies }: { readonly ledger: Ledger; readonly bodies: BodyStore }): Methods {
  const requireAccount = async (id: bigint): Promise<number> => {
    const accountId = readId(id, 'account');
    return requireRow(await ledger.findAccount(accountId), 'account', accountId).accountId;
  };
  return {
    async getApiKey({ apiKeyId }) {
      const keyId = readId(apiKeyId, 'API key');
      return { key: toApiKey(requireRow(await ledger.findKey(keyId, undefined), 'API key', keyId)) };
    },
    async listAccountActivity({ accountId, query }) {
      const filter = readFilter(query ?? create(ListActivityRequestSchema), await requireAccount(accountId));
      return { records: (await ledger.listActivity(filter)).map(row => toOperatorRecord(row)) };
    },
    async getAccountActivity({ accountId, requestId }) {
      const activity = await ledger.findActivity(await requireAccount(accountId), requestId);
      const { row, lines } = requireRow(activity, 'activity record', requestId);
      return { record: toOperatorRecord(row, lines) };
    },
    async getAccountRequestBodies({ accountId, requestId }) {
      return defined({ bodies: await bodies.find(await requireAccount(accountId), requestId) });
    },
    async getAccountAnalytics({ accountId, query }) {
      const request = query ?? create(GetAnalyticsRequestSchema);
      return {
        analytics: await readAnalytics(
          ledger,
          { accountId: await requireAccount(accountId) },
          { request, nowMs: systemClock.now(), showsMargin: true },
        ),
      };
    },
  };
}
