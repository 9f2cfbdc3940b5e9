import { CommandFailure } from '../failure.ts';
import type { GatewayClients } from '../gateway.ts';

/** The gateway's address, model and key for a program. */
export interface Access {
  /** The public address, without a slash at its end. */
  readonly url: string;
  readonly key: string;
  /** The listed id of a model, or another name of it. */
  readonly model: string;
}

/** The address and the model in the command line; what is absent is read from the running gateway. */
export interface AccessOptions {
  readonly url?: string;
  readonly model?: string;
}

/**
 * Returns the gateway's address and the model for programs: the model in the command line, else the first available one of the catalogue
 * that can call tools. Throws if there is none, and throws the gateway's error if the model is unknown.
 */
export async function findAccess(
  { admin, catalog }: GatewayClients,
  { url, model }: AccessOptions,
): Promise<Omit<Access, 'key'>> {
  const { publicUrl } = await admin.describeGateway({});
  const place = (url ?? publicUrl).replace(/\/+$/, '');
  if (model !== undefined) {
    // Checks the name, which may also be an alias, so that a wrong one is reported here and not by the program.
    await catalog.getModel({ id: model });
    return { url: place, model };
  }
  const { models } = await catalog.listModels({});
  const found = models.find(({ available, functionCall }) => available && functionCall);
  if (found === undefined) {
    throw new CommandFailure(1, [
      'No available model of the gateway can call tools.',
      'Choose another model with --model.',
    ]);
  }
  return { url: place, model: found.id };
}
