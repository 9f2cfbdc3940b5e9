import { messagesErrorType } from '../../errors/error-type.ts';
import type { GatewayError } from '../../errors/gateway-error.ts';
import { sseEvent } from '../../lib/sse.ts';

/** Renders errors for clients of Messages. Source: docs/errors.md "The envelope", "Errors of providers". */

/** Returns the frame that ends a failed stream. No `message_stop` follows it, so that no client takes the stream for a success. */
export function errorFrame(error: GatewayError, requestId: string): string {
  const id = error.facts.requestId ?? requestId;
  return sseEvent(
    'error',
    JSON.stringify({
      type: 'error',
      error: {
        message: error.message,
        type: messagesErrorType(error.facets.http),
        param: error.facts.param ?? null,
        code: error.code,
        id,
      },
      request_id: id,
    }),
  );
}
