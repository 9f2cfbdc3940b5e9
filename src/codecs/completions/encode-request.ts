import { GatewayError } from '../../errors/gateway-error.ts';
import { Protocol } from '../../gen/tollgate/v1/content_pb.ts';
import type { EncodedRequest, EncodeInput, JsonObject } from '../codec.ts';
import { objectIn } from '../json.ts';
import { sentBody } from '../sent-body.ts';
import { patchServiceTier } from '../service-tier.ts';

/**
 * Encodes the body for a Completions upstream: the client's JSON with the route's model, output limit, service tier, and stream or not.
 * Throws `unsupported_feature` for a request of another protocol.
 */
export function encodeRequest(input: EncodeInput): EncodedRequest {
  const { request, model, maxOutputTokens, stream, dialect = {} } = input;
  const { source } = request;
  if (source?.protocol !== Protocol.COMPLETIONS) {
    throw new GatewayError(
      'unsupported_feature',
      'Only a request to /v1/completions can be sent to a provider that has only /completions.',
    );
  }
  const sent = sentBody(source);
  const { body } = sent;
  body['model'] = model;
  if (maxOutputTokens !== undefined) body['max_tokens'] = maxOutputTokens;
  patchServiceTier(body, request, ['auto', 'default']);
  if (stream) patchStream(body, dialect.streamOptions === 'refused');
  else {
    delete body['stream'];
    delete body['stream_options'];
  }
  return { ...sent, body, dropped: [] };
}

function patchStream(body: JsonObject, lacksOptions: boolean): void {
  body['stream'] = true;
  if (lacksOptions) delete body['stream_options'];
  else body['stream_options'] = { ...objectIn(body['stream_options']), include_usage: true };
}
