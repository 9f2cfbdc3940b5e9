import { errorType } from '../../errors/error-type.ts';
import type { GatewayError } from '../../errors/gateway-error.ts';
import { sseData } from '../../lib/sse.ts';

/** The frame that ends a stream which failed: no finish and no `[DONE]` follow, so that no client takes it for a success. Source: decisions §3, wire.md B5. */
export function errorFrame(error: GatewayError, requestId: string): string {
  return sseData(
    JSON.stringify({
      error: {
        message: error.message,
        type: errorType(error.facets.http),
        param: error.facts.param ?? null,
        code: error.code,
        id: error.facts.requestId ?? requestId,
      },
    }),
  );
}
