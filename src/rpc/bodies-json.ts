import type { KeptBody, RequestBodies } from '../gen/tollgate/v1/bodies_pb.ts';
import { isoTime } from '../lib/clock.ts';

/** Converts the kept bodies of a request to the JSON that REST clients get and the command line prints. `contract_request` and `contract_answer` are in the gateway's own form, between the client's protocol and the provider's. */

/** Returns the kept bodies of a request as JSON. */
export function bodiesJson(bodies: RequestBodies): object {
  return {
    request_id: bodies.requestId,
    model: bodies.model,
    endpoint: bodies.endpoint === '' ? null : bodies.endpoint,
    failed: bodies.failed,
    kept_at: isoTime(bodies.keptAtMs),
    ends_at: isoTime(bodies.endsAtMs),
    dropped: bodies.dropped,
    client_request: bodyJson(bodies.clientRequest),
    contract_request: bodyJson(bodies.contractRequest),
    upstream: bodies.upstream.map(({ provider, model, request, answer }) => ({
      provider,
      model,
      request: bodyJson(request),
      answer: bodyJson(answer),
    })),
    contract_answer: bodyJson(bodies.contractAnswer),
    client_answer: bodyJson(bodies.clientAnswer),
  };
}

function bodyJson(body: KeptBody | undefined): object | null {
  return body === undefined ? null : { text: body.text, bytes: Number(body.bytes), cut: body.cut };
}
