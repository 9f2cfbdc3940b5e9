import type { MessageInitShape } from '@bufbuild/protobuf';
import type { AccountService, OwnAccountSchema } from '../gen/tollgate/v1/account_pb.ts';
import { defined } from '../lib/defined.ts';
import type { PushedService } from '../lib/pushed-service.ts';
import type { AccountRow, Ledger } from '../ledger/ledger.ts';
import { requireRow, readLowBalance } from './account-fields.ts';
import { authenticate } from './credential.ts';

/** The methods that read and change the caller's account. */
export function ownAccount(
  ledger: Ledger,
): Pick<PushedService<typeof AccountService>, 'getOwnAccount' | 'updateOwnAccount'> {
  return {
    async getOwnAccount(_request, context) {
      const { accountId } = await authenticate(context, ledger, { scope: 'account:read' });
      return { account: toOwnAccount(requireRow(await ledger.findAccount(accountId), 'account', accountId)) };
    },
    async updateOwnAccount({ lowBalanceNanoUsd, noLowBalance }, context) {
      const { accountId } = await authenticate(context, ledger, { scope: 'webhooks:write' });
      const change = defined({ lowBalance: readLowBalance(lowBalanceNanoUsd, noLowBalance) });
      return {
        account: toOwnAccount(requireRow(await ledger.updateAccount({ accountId, ...change }), 'account', accountId)),
      };
    },
  };
}

function toOwnAccount({
  accountId,
  name,
  balance,
  lowBalance,
  createdAtMs,
}: AccountRow): MessageInitShape<typeof OwnAccountSchema> {
  return {
    accountId: BigInt(accountId),
    name,
    balanceNanoUsd: balance,
    createdAtMs: BigInt(createdAtMs),
    ...(lowBalance === null ? {} : { lowBalanceNanoUsd: lowBalance }),
  };
}
