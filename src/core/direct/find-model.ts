import { GatewayError } from '../../errors/gateway-error.ts';
import type { Model } from '../../gen/tollgate/v1/catalog_pb.ts';
import type { Endpoint } from '../../gen/tollgate/v1/request_pb.ts';
import type { Credential } from '../../ledger/ledger.ts';
import { type Catalog, isVisible } from '../catalog/catalog.ts';

/**
 * Returns the model that a request names, if it can be used on the path and the key may use it. Throws the client's error. Does not check whether the model is available.
 */
export function findModel(
  catalog: Catalog,
  { model: name }: { readonly model: string },
  endpoint: Endpoint,
  { allowedModels }: Pick<Credential, 'allowedModels'>,
): Model {
  const { model } = catalog.resolve(name, { endpoint, visible: allowedModels });
  if (isVisible(model, allowedModels)) return model;
  throw new GatewayError('model_not_allowed', `This key may not use ${model.id}.`, { param: 'model' });
}
