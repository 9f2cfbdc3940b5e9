import type { Command } from 'commander';
import type { NextPayment } from '../gen/tollgate/v1/account_pb.ts';
import { nextPaymentJson } from '../rpc/account-json.ts';
import { countArgument, idArgument } from './arguments.ts';
import { type RemotePorts, ResourceCommands } from './remote.ts';
import type { ResourceView } from './resources.ts';

const nextView: ResourceView<NextPayment> = {
  document: payment => ({ ...nextPaymentJson(payment) }),
  columns: ['api_key_id', 'model', 'admitted', 'held', 'output_tokens'],
};

/** Adds `keys next`. */
export function nextCommand(keys: Command, ports: RemotePorts): void {
  new ResourceCommands(keys, ports, nextView)
    .one(
      'next',
      'show whether a key’s next request would be admitted, and who would pay; nothing is held',
      async ({ admin }, apiKeyId: bigint, { model = '', inputTokens = 0 }: { model?: string; inputTokens?: number }) =>
        (await admin.getKeyNextPayment({ apiKeyId, model, inputTokens })).payment,
    )
    .argument('<key_id>', 'the key', idArgument)
    .option('--model <id>', 'the model (default: the first one)')
    .option('--input-tokens <number>', 'input tokens of the request (default: 1000)', countArgument);
}
