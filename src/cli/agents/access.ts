import { CommandFailure } from '../failure.ts';
import type { GatewayClients } from '../gateway.ts';

/** The access data of a program that uses the gateway. */
export interface Access {
  /** The public address, without a slash at its end. */
  readonly url: string;
  readonly key: string;
  /** A listed id, or what else finds a model. */
  readonly model: string;
}

/** The command line's gateway and model; absent ones are read from the running gateway. */
export interface AccessOptions {
  readonly url?: string;
  readonly model?: string;
}

/**
 * Returns the gateway's address and the model for programs: the named one, else the first of the catalogue that is available and calls
 * tools. Throws if there is none, and the gateway's error for an unknown model.
 */
export async function findPlace(
  { admin, catalog }: GatewayClients,
  { url, model }: AccessOptions,
): Promise<Omit<Access, 'key'>> {
  const { publicUrl } = await admin.describeGateway({});
  const place = (url ?? publicUrl).replace(/\/+$/, '');
  if (model !== undefined) {
    // Also for a name that is not an id, such as an alias: a wrong one is reported now and not by the program.
    await catalog.getModel({ id: model });
    return { url: place, model };
  }
  const { models } = await catalog.listModels({});
  const found = models.find(({ available, functionCall }) => available && functionCall);
  if (found === undefined) {
    throw new CommandFailure(1, ['No model of the gateway can call tools now.', 'Name one with --model.']);
  }
  return { url: place, model: found.id };
}
