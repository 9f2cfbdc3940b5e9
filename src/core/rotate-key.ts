import type { MessageInitShape } from '@bufbuild/protobuf';
import type { ApiKeySchema } from '../gen/tollgate/v1/account_pb.ts';
import type { Ledger } from '../ledger/ledger.ts';
import { toApiKey, requireRow, readId, invalidField } from './account-fields.ts';
import { makeKey } from './keys.ts';

const overlapMaxSeconds = 30 * 86_400;

/**
 * Gives a key of the account (undefined: of any account) a new secret, and returns the key with that secret, which can't be read later. The old secret stays valid for `overlapSeconds` (0: it ends at once). Throws `not_found` if there is no such key, and `validation_error` if the overlap is longer than 30 days.
 */
export async function rotateKey(
  ledger: Ledger,
  of: { readonly apiKeyId: bigint; readonly overlapSeconds: number; readonly accountId: number | undefined },
): Promise<MessageInitShape<typeof ApiKeySchema>> {
  const { apiKeyId, overlapSeconds, accountId } = of;
  const keyId = readId(apiKeyId, 'API key');
  if (overlapSeconds > overlapMaxSeconds) {
    throw invalidField('overlap_seconds', `must be an integer from 0 to ${overlapMaxSeconds}`, overlapSeconds);
  }
  const { text, hash, masked } = makeKey('apiKey');
  const row = await ledger.rotateKey({ keyId, accountId, hash, masked, overlapMs: overlapSeconds * 1000 });
  return toApiKey(requireRow(row, 'API key', keyId), text);
}
