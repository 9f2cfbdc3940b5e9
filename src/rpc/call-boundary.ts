import { Code, ConnectError, type HandlerContext, type Interceptor, type StreamResponse } from '@connectrpc/connect';
import { type ErrorCode } from '../errors/error-table.ts';
import { GatewayError, toGatewayError } from '../errors/gateway-error.ts';
import { toConnectError } from './errors.ts';
import { requestIdHeader } from '../lib/ids.ts';
import type { Runtime } from '../lib/runtime.ts';
import { defined } from '../lib/defined.ts';
import { findNetworkCall } from './network-call.ts';
import type { RequestTelemetry } from '../telemetry/request-telemetry.ts';

/** A call over the network that has ended. */
export interface RpcCall {
  /** The name of the method: "tollgate.v1.AccountService/ListKeys". */
  readonly procedure: string;
  readonly requestId: string;
  /** `ok`, the code of the gateway's error, or `cancelled` or `deadline_exceeded` if the caller ended the call. */
  readonly code: 'ok' | 'cancelled' | 'deadline_exceeded' | ErrorCode;
  readonly durationMs: number;
  /** The thrown error, for the log; absent if the call succeeded or the caller ended it. */
  readonly error?: GatewayError;
  /** The facts that were collected about the call; absent: it reached no service. */
  readonly telemetry?: RequestTelemetry;
}

/** Called once for every call that reached a service or the gate. */
export type CallObserver = (call: RpcCall) => void;

/** The observer and the clock of calls. */
export interface CallWatch {
  readonly observe: CallObserver;
  readonly runtime: Pick<Runtime, 'monotonicMs'>;
}

type Facts = Pick<HandlerContext, 'signal' | 'service' | 'method' | 'requestHeader'>;

/** Returns the gate of the network listener, which checks a call before its body is read. `check` throws if the call is refused. */
export function createGate(
  check: (context: HandlerContext) => Promise<void> | void,
  watch: CallWatch,
): (context: HandlerContext) => Promise<void> {
  return async context => {
    const call = watchCall(context, watch);
    try {
      await check(context);
    } catch (thrown) {
      throw call.fail(thrown);
    }
  };
}

/** Converts errors of services to RPC errors with an `ErrorDetail`, and reports to the observer how each call ended. */
export function callBoundary(watch: CallWatch): Interceptor {
  return next => async request => {
    const call = watchCall({ ...request, requestHeader: request.header }, watch);
    try {
      const response = await next(request);
      if (response.stream) return { ...response, message: watched(response.message, call) };
      call.end('ok');
      return response;
    } catch (thrown) {
      throw call.fail(thrown);
    }
  };
}

async function* watched(
  messages: StreamResponse['message'],
  call: ReturnType<typeof watchCall>,
): StreamResponse['message'] {
  try {
    yield* messages;
    call.end('ok');
  } catch (thrown) {
    throw call.fail(thrown);
  } finally {
    // If the transport has stopped reading because the caller has disconnected, the end was not reported yet.
    call.end('cancelled');
  }
}

/** Returns two functions. `end` reports the end of the call, once. `fail` ends the call with an error, and returns the error for the caller. */
function watchCall({ service, method, requestHeader, signal }: Facts, { observe, runtime }: CallWatch) {
  const beganMs = runtime.monotonicMs();
  const requestId = requestHeader.get(requestIdHeader) ?? '';
  const procedure = `${service.typeName}/${method.name}`;
  let hasEnded = false;
  const end = (code: RpcCall['code'], error?: GatewayError): void => {
    if (hasEnded) return;
    hasEnded = true;
    const durationMs = runtime.monotonicMs() - beganMs;
    observe({
      procedure,
      requestId,
      code,
      durationMs,
      ...defined({ error, telemetry: findNetworkCall(requestHeader) }),
    });
  };
  const fail = (thrown: unknown): ConnectError => {
    // If the caller has ended the call, errors that a service throws after that are only a consequence.
    if (signal.aborted && !(thrown instanceof GatewayError)) {
      const stopped = ConnectError.from(signal.reason, Code.Canceled);
      end(stopped.code === Code.DeadlineExceeded ? 'deadline_exceeded' : 'cancelled');
      return stopped;
    }
    const error = toConnectError(thrown, requestId);
    const cause = toGatewayError(error.cause instanceof GatewayError ? error.cause : thrown);
    end(cause.code, cause);
    return error;
  };
  return { end, fail };
}
