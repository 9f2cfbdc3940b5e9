import type { MessageInitShape } from '@bufbuild/protobuf';
import type { ModelUsageSchema } from '../gen/tollgate/v1/admin_pb.ts';
import { sumInput } from '../generation/usage-buckets.ts';
import type { Ledger } from '../ledger/ledger.ts';

type ModelUsage = Required<Omit<MessageInitShape<typeof ModelUsageSchema>, '$typeName' | '$unknown'>>;

/** How many records are read at a time. */
const pageSize = 1_000;

/** Sums a key's settled requests by model, the most expensive model first. The key may be revoked. */
export async function usageByModel(
  ledger: Pick<Ledger, 'listActivity'>,
  { accountId, keyId }: { readonly accountId: number; readonly keyId: number },
): Promise<ModelUsage[]> {
  const models = new Map<string, ModelUsage>();
  for (let offset = 0; ; offset += pageSize) {
    const rows = await ledger.listActivity({ accountId, keyId, limit: pageSize, offset });
    for (const { model, usage, costNanoUsd } of rows) {
      const sum = models.get(model) ?? { model, requests: 0, inputTokens: 0n, outputTokens: 0n, costNanoUsd: 0n };
      models.set(model, {
        model,
        requests: sum.requests + 1,
        inputTokens: sum.inputTokens + BigInt(sumInput(usage)),
        outputTokens: sum.outputTokens + BigInt(usage.output),
        costNanoUsd: sum.costNanoUsd + costNanoUsd,
      });
    }
    if (rows.length < pageSize) break;
  }
  return [...models.values()].sort((a, b) => Number(b.costNanoUsd - a.costNanoUsd));
}
