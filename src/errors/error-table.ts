/**
 * The only table of error codes. A code without all facets does not compile; `test/errors-doc.test.ts` compares `docs/errors.md` with this
 * table.
 */

/** The meaning of a code for people, its form for each kind of caller, and its level in the log. */
export interface ErrorFacets {
  /** The meaning, for people. */
  readonly meaning: string;
  /** HTTP status of a REST answer. */
  readonly http: 400 | 401 | 403 | 404 | 409 | 413 | 422 | 429 | 500 | 502 | 503;
  /** gRPC status name of an RPC answer. */
  readonly rpc:
    | 'InvalidArgument'
    | 'Unauthenticated'
    | 'PermissionDenied'
    | 'NotFound'
    | 'FailedPrecondition'
    | 'AlreadyExists'
    | 'Aborted'
    | 'ResourceExhausted'
    | 'Internal'
    | 'Unavailable';
  /** The header `x-should-retry`, which the clients of OpenAI and Anthropic obey; undefined: it is not sent, and they decide. */
  readonly retry: boolean | undefined;
  /** The level at which the error is logged when it is sent to the client. */
  readonly log: 'info' | 'warn' | 'error';
  /** The advice to the client, unless the error has a tip of its own. */
  readonly tip: string;
}

const readTip = 'Read `param` and the message, correct the request and send it again.';

/** Every code of the gateway. */
export const errorTable = {
  invalid_request: {
    meaning: 'The body is not JSON, is nested too deeply or has a wrong content type, or a query parameter is wrong.',
    http: 400,
    rpc: 'InvalidArgument',
    retry: false,
    log: 'info',
    tip: 'Send a JSON body with `Content-Type: application/json`, and only the documented query parameters.',
  },
  validation_error: {
    meaning: 'A field of the body is missing, unknown to this path, or out of bounds.',
    http: 422,
    rpc: 'InvalidArgument',
    retry: false,
    log: 'info',
    tip: readTip,
  },
  model_not_found: {
    meaning: 'No model has this id.',
    http: 400,
    rpc: 'InvalidArgument',
    retry: false,
    log: 'info',
    tip: 'List the models with GET /v1/models and use one of their ids.',
  },
  model_retired: {
    meaning: 'The model’s provider, or the operator, no longer offers it.',
    http: 400,
    rpc: 'InvalidArgument',
    retry: false,
    log: 'info',
    tip: 'Use the model that the message names, or another one of GET /v1/models.',
  },
  model_not_supported: {
    meaning: 'The model can’t be used on this path.',
    http: 400,
    rpc: 'InvalidArgument',
    retry: false,
    log: 'info',
    tip: 'Use one of the paths in the model’s `endpoints`, or another model.',
  },
  unsupported_feature: {
    meaning: 'The model, or every route to it, lacks something that the request needs.',
    http: 400,
    rpc: 'InvalidArgument',
    retry: false,
    log: 'info',
    tip: 'Leave the field out, or choose a model whose `capabilities` list the feature.',
  },
  unsupported_parameter: {
    meaning: 'The upstream has no such setting, and leaving it out would change the answer.',
    http: 400,
    rpc: 'InvalidArgument',
    retry: false,
    log: 'info',
    tip: 'Leave the field out, or choose a model whose upstream supports it.',
  },
  context_length_exceeded: {
    meaning: 'The input and the requested output are longer than the model accepts.',
    http: 400,
    rpc: 'InvalidArgument',
    retry: false,
    log: 'info',
    tip: 'Shorten the input, or choose a model with a larger `context_length`.',
  },
  upstream_rejected: {
    meaning: 'The provider refused the content of the request.',
    http: 400,
    rpc: 'InvalidArgument',
    retry: false,
    log: 'info',
    tip: 'The model’s provider refused this content: correct the request as the message says.',
  },
  previous_response_not_found: {
    meaning:
      'The response that the request continues was not stored, has expired, was deleted, or belongs to another account.',
    http: 400,
    rpc: 'InvalidArgument',
    retry: false,
    log: 'info',
    tip: 'Send the whole conversation as `input`, or continue from a stored response of this account.',
  },
  websocket_connection_limit_reached: {
    meaning: 'The WebSocket has reached its maximum lifetime.',
    http: 400,
    rpc: 'FailedPrecondition',
    retry: false,
    log: 'info',
    tip: 'Open another WebSocket, and continue there from a stored response or with the whole conversation.',
  },
  invalid_api_key: {
    meaning: 'There is no key, or it is unknown, expired or revoked.',
    http: 401,
    rpc: 'Unauthenticated',
    retry: false,
    log: 'info',
    tip: 'Send a valid key as `Authorization: Bearer KEY` or `x-api-key: KEY`.',
  },
  permission_denied: {
    meaning: 'The key is of the wrong kind or lacks the scope, or the account may not change the object.',
    http: 403,
    rpc: 'PermissionDenied',
    retry: false,
    log: 'info',
    tip: 'Use a key of the right kind, or ask the operator for the missing scope.',
  },
  key_disabled: {
    meaning: 'The operator has disabled the key.',
    http: 403,
    rpc: 'PermissionDenied',
    retry: false,
    log: 'info',
    tip: 'Ask the operator to enable the key: npx tollgate keys enable KEY_ID.',
  },
  account_suspended: {
    meaning: 'The operator has suspended the account.',
    http: 403,
    rpc: 'PermissionDenied',
    retry: false,
    log: 'warn',
    tip: 'Ask the operator to resume the account: npx tollgate accounts resume ACCOUNT_ID.',
  },
  model_not_allowed: {
    meaning: 'The key may not use this model.',
    http: 403,
    rpc: 'PermissionDenied',
    retry: false,
    log: 'info',
    tip: 'Use one of the models that GET /v1/models lists for this key, or change the key’s `allowed_models`.',
  },
  not_found: {
    meaning: 'Nothing has this path or this id.',
    http: 404,
    rpc: 'NotFound',
    retry: false,
    log: 'info',
    tip: 'Check the path, the method and the id.',
  },
  conflict: {
    meaning: 'The change conflicts with the current state.',
    http: 409,
    rpc: 'AlreadyExists',
    retry: false,
    log: 'info',
    tip: 'Read the current state first; the change was already made or conflicts with it.',
  },
  conversation_locked: {
    meaning: 'Another response is being made in the conversation.',
    http: 409,
    rpc: 'Aborted',
    retry: undefined,
    log: 'info',
    tip: 'Wait until that response has ended, then send the request again.',
  },
  idempotency_in_progress: {
    meaning: 'A request with the same Idempotency-Key is still being answered.',
    http: 409,
    rpc: 'Aborted',
    retry: undefined,
    log: 'info',
    tip: 'The first request with this Idempotency-Key is still running: wait, then send it again.',
  },
  idempotency_key_reused: {
    meaning: 'The Idempotency-Key was used for another body.',
    http: 422,
    rpc: 'FailedPrecondition',
    retry: false,
    log: 'info',
    tip: 'Use a new Idempotency-Key for a new body.',
  },
  body_too_large: {
    meaning: 'The body is larger than the operator allows.',
    http: 413,
    rpc: 'ResourceExhausted',
    retry: false,
    log: 'info',
    tip: 'Send a smaller body, or ask the operator to raise `limits.body_bytes`.',
  },
  rate_limit: {
    meaning: 'A limit of requests, tokens or concurrent requests is reached.',
    http: 429,
    rpc: 'ResourceExhausted',
    retry: false,
    log: 'info',
    tip: 'Wait as long as `retry-after` says, or raise the key’s limit.',
  },
  spending_limit: {
    meaning: 'A spending limit is reached.',
    http: 429,
    rpc: 'ResourceExhausted',
    retry: false,
    log: 'info',
    tip: 'Raise the key’s limit, or wait until it resets.',
  },
  insufficient_balance: {
    meaning: 'The available balance does not cover the request.',
    http: 429,
    rpc: 'ResourceExhausted',
    retry: false,
    log: 'info',
    tip: 'Ask the operator to add credit: npx tollgate credits add ACCOUNT_ID DOLLARS.',
  },
  subscription_exhausted: {
    meaning: 'The plan is used up or missing, and the key may not spend the balance instead.',
    http: 429,
    rpc: 'ResourceExhausted',
    retry: false,
    log: 'info',
    tip: 'Wait for the next period, start a larger plan, or set `fallback_to_payg` on the key.',
  },
  internal: {
    meaning: 'The gateway failed; nothing was charged.',
    http: 500,
    rpc: 'Internal',
    retry: undefined,
    log: 'error',
    tip: 'Try again. If it fails again, give the operator the error’s `id`.',
  },
  server_restarted: {
    meaning: 'The gateway was restarted while the request ran.',
    http: 500,
    rpc: 'Internal',
    retry: undefined,
    log: 'warn',
    tip: 'The gateway was restarted while this ran; nothing was charged. Send the request again.',
  },
  upstream_error: {
    meaning: 'The provider failed, or could not be reached.',
    http: 502,
    rpc: 'Unavailable',
    retry: undefined,
    log: 'warn',
    tip: 'Try again with exponential backoff, or use another model.',
  },
  upstream_timeout: {
    meaning: 'The provider did not answer in time.',
    http: 502,
    rpc: 'Unavailable',
    retry: undefined,
    log: 'warn',
    tip: 'Try again with exponential backoff, ask for a shorter answer, or use another model.',
  },
  model_unavailable: {
    meaning: 'No route of the model is available now.',
    http: 502,
    rpc: 'Unavailable',
    retry: undefined,
    log: 'warn',
    tip: 'Use another model, or try again later: GET /v1/models shows `available`.',
  },
  overloaded: {
    meaning: 'The gateway is overloaded, stopping, or can’t reach its store.',
    http: 503,
    rpc: 'Unavailable',
    retry: undefined,
    log: 'warn',
    tip: 'Try again after `retry-after` seconds.',
  },
} as const satisfies Record<string, ErrorFacets>;

/** A code of the table. */
export type ErrorCode = keyof typeof errorTable;

/** Returns whether a string is a code of the table. A code that was stored or sent by another version of the gateway may be unknown. */
export function isErrorCode(code: string): code is ErrorCode {
  return Object.hasOwn(errorTable, code);
}
