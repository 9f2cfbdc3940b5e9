import type { MessageInitShape } from '@bufbuild/protobuf';
import type { ApiKeySchema } from '../gen/tollgate/v1/account_pb.ts';
import type { Ledger } from '../ledger/ledger.ts';
import { toApiKey, requireRow, readId, invalidField } from './account-fields.ts';
import { makeKey } from './keys.ts';

const overlapMaxSeconds = 30 * 86_400;

/**
 * Gives a key of an account (undefined: of any account) a new secret, which only this answer contains in full. Throws the error for the
 * caller.
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
