import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { Code, ConnectError } from '@connectrpc/connect';
import { isErrorCode } from '../errors/error-table.ts';
import {
  type DenialFacts,
  type DeniedLimit,
  type ErrorFacts,
  GatewayError,
  toGatewayError,
  type WindowState,
} from '../errors/gateway-error.ts';
import {
  type Denial,
  type DenialSchema,
  type DeniedLimit as DeniedLimitMessage,
  type ErrorDetail,
  ErrorDetailSchema,
} from '../gen/tollgate/v1/error_pb.ts';
import type { LimitState } from '../gen/tollgate/v1/event_pb.ts';

/**
 * Converts the gateway's errors to RPC errors and back. The detail contains everything, so that REST and RPC callers get the same facts.
 */

/** The `retry-after` if the gateway can't be reached. */
const unreachableRetryMs = 1_000;

/**
 * Converts an error to an RPC error with an `ErrorDetail`. The message is also in the detail, because gRPC clients show the one of the RPC error percent-encoded.
 */
export function toConnectError(thrown: unknown, requestId: string): ConnectError {
  if (thrown instanceof ConnectError) return thrown;
  const error = toGatewayError(thrown);
  const { facts } = error;
  const detail = create(ErrorDetailSchema, {
    code: error.code,
    message: error.message,
    param: facts.param ?? '',
    detailCode: facts.detailCode ?? '',
    tip: error.tip,
    httpStatus: error.facets.http,
    requestId: facts.requestId ?? requestId,
    limits: (facts.limits ?? []).map(toLimitState),
    violations: (facts.violations ?? []).map(violation => ({ ...violation, path: [...violation.path] })),
    retryAfterMs: facts.retryAfterMs === undefined ? undefined : BigInt(Math.ceil(facts.retryAfterMs)),
    shouldRetry: error.retry,
    denial: facts.denial && toDenial(facts.denial),
  });
  return new ConnectError(
    error.message,
    Code[error.facets.rpc],
    undefined,
    [{ desc: ErrorDetailSchema, value: detail }],
    error,
  );
}

/**
 * Converts an RPC error to the gateway error in its detail. If it has none, the connection to the gateway failed, or the error is unknown (`internal`); the RPC error is then the cause.
 */
export function fromConnectError(thrown: unknown): GatewayError {
  if (!(thrown instanceof ConnectError)) return toGatewayError(thrown);
  if (thrown.cause instanceof GatewayError) return thrown.cause;
  const [detail] = thrown.findDetails(ErrorDetailSchema);
  return detail === undefined ? foreignError(thrown) : fromErrorDetail(detail);
}

function foreignError(cause: ConnectError): GatewayError {
  switch (cause.code) {
    case Code.Unavailable:
      return new GatewayError('overloaded', 'The gateway can’t be reached.', {
        cause,
        retryAfterMs: unreachableRetryMs,
      });
    case Code.ResourceExhausted:
      return new GatewayError('body_too_large', 'The request is larger than the gateway accepts.', { cause });
    default:
      return unknownError(cause);
  }
}

/** Converts a detail to the gateway error. An unknown code, of a newer gateway, becomes `internal`. */
export function fromErrorDetail(detail: ErrorDetail): GatewayError {
  const { code, message } = detail;
  return isErrorCode(code) ? new GatewayError(code, message, readFacts(detail)) : unknownError(detail);
}

function unknownError(cause: unknown): GatewayError {
  return new GatewayError('internal', 'The gateway failed.', { cause });
}

function readFacts(detail: ErrorDetail): ErrorFacts {
  return {
    tip: detail.tip,
    requestId: detail.requestId,
    limits: detail.limits.map(readWindow),
    violations: detail.violations.map(({ inputJson, ...violation }) =>
      inputJson === '' ? violation : { ...violation, inputJson },
    ),
    ...(detail.param === '' ? {} : { param: detail.param }),
    ...(detail.detailCode === '' ? {} : { detailCode: detail.detailCode }),
    ...(detail.retryAfterMs === undefined ? {} : { retryAfterMs: Number(detail.retryAfterMs) }),
    ...(detail.shouldRetry === undefined ? {} : { retry: detail.shouldRetry }),
    ...(detail.denial === undefined ? {} : { denial: readDenial(detail.denial) }),
  };
}

/** Converts a limit of requests or tokens to its protobuf message. */
export function toLimitState(window: WindowState): LimitState {
  return {
    $typeName: 'tollgate.v1.LimitState',
    limit: window.limit,
    unit: window.unit,
    max: BigInt(window.max),
    remaining: BigInt(window.remaining),
    resetAtMs: window.resetAtMs === Number.POSITIVE_INFINITY ? 0n : BigInt(window.resetAtMs),
  };
}

function readWindow(state: LimitState): WindowState {
  return {
    limit: state.limit as WindowState['limit'],
    unit: state.unit === 'tokens' ? 'tokens' : 'requests',
    max: Number(state.max),
    remaining: Number(state.remaining),
    resetAtMs: state.resetAtMs === 0n ? Number.POSITIVE_INFINITY : Number(state.resetAtMs),
  };
}

function toDenial({ used, max, resetAtMs, row, ...facts }: DenialFacts): MessageInitShape<typeof DenialSchema> {
  const resetsAtMs = resetAtMs === undefined ? undefined : BigInt(resetAtMs);
  const limit = row && {
    limitId: BigInt(row.id),
    scope: row.scope,
    scopeId: BigInt(row.scopeId),
    window: row.window ?? '',
  };
  return { ...facts, used: BigInt(used), max: BigInt(max), resetAtMs: resetsAtMs, row: limit };
}

function readDenial({ limit, unit, used, max, resetAtMs, row }: Denial): DenialFacts {
  return {
    limit: limit as DenialFacts['limit'],
    unit: unit as DenialFacts['unit'],
    used,
    max,
    ...(resetAtMs === undefined ? {} : { resetAtMs: Number(resetAtMs) }),
    ...(row === undefined ? {} : { row: readRow(row) }),
  };
}

function readRow({ limitId, scope, scopeId, window }: DeniedLimitMessage): DeniedLimit {
  return {
    id: Number(limitId),
    scope: scope as DeniedLimit['scope'],
    scopeId: Number(scopeId),
    window: window === '' ? null : (window as DeniedLimit['window']),
  };
}
