import { type Code, ConnectError } from '@connectrpc/connect';
import type { ErrorCode } from '../errors/error-table.ts';
import { type ErrorFacts, GatewayError } from '../errors/gateway-error.ts';

/** An error in a form that can be sent to another thread. Its cause is a text, for the log. */
type WrittenError =
  | { readonly kind: 'gateway'; readonly code: ErrorCode; readonly message: string; readonly facts: ErrorFacts }
  | { readonly kind: 'rpc'; readonly code: Code; readonly message: string }
  | { readonly kind: 'other'; readonly message: string };

/** Converts a thrown value to a form that can be sent to another thread. */
export function writeError(thrown: unknown): WrittenError {
  if (thrown instanceof GatewayError) {
    const { cause, ...facts } = thrown.facts;
    const { code, message } = thrown;
    return {
      kind: 'gateway',
      code,
      message,
      facts: cause === undefined ? facts : { ...facts, cause: describeCause(cause) },
    };
  }
  if (thrown instanceof ConnectError) {
    if (thrown.cause instanceof GatewayError) return writeError(thrown.cause);
    return { kind: 'rpc', code: thrown.code, message: thrown.rawMessage };
  }
  return { kind: 'other', message: describeCause(thrown) };
}

/** Converts the form that `writeError` returns back to an error. */
export function readError(written: unknown): Error {
  // The cast holds, because all errors between threads come from `writeError`.
  const error = written as WrittenError;
  if (error.kind === 'gateway') {
    const { cause, ...facts } = error.facts;
    return new GatewayError(
      error.code,
      error.message,
      cause === undefined ? facts : { ...facts, cause: new Error(describeCause(cause)) },
    );
  }
  return error.kind === 'rpc' ? new ConnectError(error.message, error.code) : new Error(error.message);
}

function describeCause(thrown: unknown): string {
  return thrown instanceof Error ? `${thrown.name}: ${thrown.message}` : String(thrown);
}
