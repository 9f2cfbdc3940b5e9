import { GatewayError } from '../../errors/gateway-error.ts';
import type { Model } from '../../gen/tollgate/v1/catalog_pb.ts';
import type { ImageRequest } from '../../gen/tollgate/v1/image_pb.ts';
import { Endpoint } from '../../gen/tollgate/v1/request_pb.ts';
import { isImageEndpoint, endpointPath } from '../../generation/endpoints.ts';
import { checkImageRequest, invalidImageField } from '../../generation/images/check-image-request.ts';
import {
  fitsInto,
  imageSizeText,
  type ImageSize,
  parseImageSize,
  shrunkInto,
} from '../../generation/images/image-size.ts';
import { pngSize } from '../../generation/images/png.ts';
import { estimateImageTokens, withMargin } from '../../generation/images/image-tokens.ts';
import { imageSheet, imageTokensCost, type ImageTerms, type PriceSheet } from '../../generation/price.ts';
import type { Credential, FundsEstimate } from '../../ledger/ledger.ts';
import type { Catalog } from '../catalog/catalog.ts';
import { fixedFunds } from '../generation/funds.ts';
import { modelUnavailable } from '../routing/failure-policy.ts';
import { checkFiles } from './inspect.ts';

/** A checked request: what to draw, with which model, at which price. */
export interface PreparedImageRequest {
  readonly endpoint: Endpoint;
  /** `model` is the listed id. */
  readonly request: ImageRequest;
  readonly model: Model;
  readonly count: number;
  readonly prices: PriceSheet;
  /** The size and quality that the price depends on. */
  readonly imageTerms: ImageTerms;
}

/**
 * Checks a request and finds its model. Throws the client's error. Nothing is charged, and no limit is used, yet. The files of an edit have not been decoded yet.
 */
export function prepareImageRequest(
  catalog: Catalog,
  requested: { readonly request: ImageRequest; readonly endpoint: Endpoint },
  { allowedModels }: Pick<Credential, 'allowedModels'>,
): PreparedImageRequest {
  const { request, endpoint } = requested;
  if (!isImageEndpoint(endpoint)) throw invalidImageField('endpoint', 'must be an image path');
  checkImageRequest(request, endpoint === Endpoint.IMAGE_EDITS);
  const model = findModel(catalog, requested, allowedModels);
  const largest = parseImageSize(model.maxSize);
  const size = parseImageSize(request.size);
  if (size !== undefined && !fitsInto(size, largest)) {
    throw invalidImageField('size', `must be at most ${model.maxSize} with ${model.id}`);
  }
  if (endpoint === Endpoint.IMAGE_EDITS) checkFiles(request);
  if (!model.available) throw modelUnavailable(model.id);
  const imageTerms = toImageTerms(request, largest);
  return {
    endpoint,
    request: { ...request, model: model.id },
    model,
    count: request.n ?? 1,
    prices: findPrices(model, imageTerms),
    imageTerms,
  };
}

function findModel(
  catalog: Catalog,
  { request, endpoint }: { readonly request: ImageRequest; readonly endpoint: Endpoint },
  allowed: readonly string[] | null,
): Model {
  const requested = { endpoint, visible: allowed };
  if (request.model !== '') {
    const { model } = catalog.resolve(request.model, requested);
    if (allowed === null || allowed.includes(model.id)) return model;
    throw new GatewayError('model_not_allowed', `This key may not use ${model.id}.`, { param: 'model' });
  }
  if (endpoint !== Endpoint.IMAGE_EDITS) throw invalidImageField('model', 'must not be empty');
  const listed = catalog.list().filter(model => model.endpoints.includes(endpoint));
  const first = listed.find(model => allowed === null || allowed.includes(model.id));
  if (first !== undefined) return first;
  const where = endpointPath(endpoint);
  throw listed.length === 0
    ? new GatewayError('model_not_found', `There is no model for ${where}.`, { param: 'model' })
    : new GatewayError('model_not_allowed', `This key may not use any model for ${where}.`, { param: 'model' });
}

function findPrices({ id, pricing }: Model, imageTerms: ImageTerms): PriceSheet {
  if (pricing === undefined) throw new Error(`${id} has no prices`);
  const sheet = imageSheet(pricing, imageTerms);
  if (sheet.image === null && pricing.imageTokens === undefined) throw new Error(`${id} has no price for images`);
  return sheet;
}

/** An edit without a size gets the size of the first image, and is priced by that. */
function toImageTerms(request: ImageRequest, largest: ImageSize | undefined): ImageTerms {
  const [first] = request.images;
  const own = request.size === '' && first !== undefined ? pngSize(first) : undefined;
  const size = own === undefined ? request.size : imageSizeText(shrunkInto(own, largest));
  return { size, quality: request.quality };
}

/** Returns the most that a request can cost, which is all of its images; undefined if they cost nothing. */
export function imageFunds({
  count,
  prices,
  model,
  request,
  imageTerms,
}: PreparedImageRequest): FundsEstimate | undefined {
  const byToken = model.pricing?.imageTokens;
  if (byToken !== undefined) {
    return fixedFunds(imageTokensCost(withMargin(estimateImageTokens(request, imageTerms, count)), byToken));
  }
  return fixedFunds(((prices.image ?? 0n) * BigInt(count) + 999n) / 1000n);
}
