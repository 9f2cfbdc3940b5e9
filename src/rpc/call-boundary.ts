import { Code, ConnectError, type HandlerContext, type Interceptor, type StreamResponse } from '@connectrpc/connect';
import { type ErrorCode } from '../errors/error-table.ts';
import { GatewayError, toGatewayError } from '../errors/gateway-error.ts';
import { toConnectError } from './errors.ts';
import { requestIdHeader } from '../lib/ids.ts';

/** A call over the network that has ended. */
export interface RpcCall {
  /** "tollgate.v1.AccountService/ListKeys". */
  readonly procedure: string;
  readonly requestId: string;
  /** `ok`, the gateway's code, or `cancelled` and `deadline_exceeded` where the caller stopped it. */
  readonly code: 'ok' | 'cancelled' | 'deadline_exceeded' | ErrorCode;
  readonly durationMs: number;
  /** What was thrown, for the log; absent where all went well or the caller stopped the call. */
  readonly error?: GatewayError;
}

/** Told once of every call that reached a service or its gate. */
export type CallObserver = (call: RpcCall) => void;

type Facts = Pick<HandlerContext, 'signal' | 'service' | 'method' | 'requestHeader'>;

/**
 * The gate of the network listener: what a call must satisfy before its body is read. `check` throws what the caller is refused with.
 */
export function gateOf(
  check: (context: HandlerContext) => Promise<void> | void,
  observe: CallObserver,
): (context: HandlerContext) => Promise<void> {
  return async context => {
    const beganMs = performance.now();
    try {
      await check(context);
    } catch (thrown) {
      throw answered(context, { thrown, beganMs, observe });
    }
  };
}

/** Turns what services throw into RPC errors with an `ErrorDetail`, and tells the observer how each call ended. */
export function callBoundary(observe: CallObserver): Interceptor {
  return next => async request => {
    const beganMs = performance.now();
    const facts = { ...request, requestHeader: request.header };
    try {
      const response = await next(request);
      if (response.stream) return { ...response, message: watched(response.message, facts, { beganMs, observe }) };
      observe(callOf(facts, 'ok', beganMs));
      return response;
    } catch (thrown) {
      throw answered(facts, { thrown, beganMs, observe });
    }
  };
}

async function* watched(
  messages: StreamResponse['message'],
  facts: Facts,
  { beganMs, observe }: { beganMs: number; observe: CallObserver },
): StreamResponse['message'] {
  let ended = false;
  try {
    yield* messages;
    ended = true;
    observe(callOf(facts, 'ok', beganMs));
  } catch (thrown) {
    ended = true;
    throw answered(facts, { thrown, beganMs, observe });
  } finally {
    // The transport stops asking when its caller has gone.
    if (!ended) observe(callOf(facts, 'cancelled', beganMs));
  }
}

function answered(
  facts: Facts,
  { thrown, beganMs, observe }: { thrown: unknown; beganMs: number; observe: CallObserver },
): ConnectError {
  const stopped = stoppedBy(facts.signal, thrown);
  if (stopped !== undefined) {
    observe(callOf(facts, stopped.code === Code.DeadlineExceeded ? 'deadline_exceeded' : 'cancelled', beganMs));
    return stopped;
  }
  const error = toConnectError(thrown, facts.requestHeader.get(requestIdHeader) ?? '');
  const cause = toGatewayError(error.cause instanceof GatewayError ? error.cause : thrown);
  observe({ ...callOf(facts, cause.code, beganMs), error: cause });
  return error;
}

/** Where the caller stopped the call, whatever a service then throws is only the echo of it. */
function stoppedBy(signal: AbortSignal, thrown: unknown): ConnectError | undefined {
  if (!signal.aborted || thrown instanceof GatewayError) return undefined;
  return ConnectError.from(signal.reason, Code.Canceled);
}

function callOf({ service, method, requestHeader }: Facts, code: RpcCall['code'], beganMs: number): RpcCall {
  return {
    procedure: `${service.typeName}/${method.name}`,
    requestId: requestHeader.get(requestIdHeader) ?? '',
    code,
    durationMs: performance.now() - beganMs,
  };
}
