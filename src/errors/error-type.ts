import type { ErrorFacets } from './error-table.ts';

const byStatus: Readonly<Record<ErrorFacets['http'], string>> = {
  400: 'invalid_request_error',
  401: 'authentication_error',
  403: 'permission_error',
  404: 'invalid_request_error',
  409: 'invalid_request_error',
  413: 'invalid_request_error',
  422: 'invalid_request_error',
  429: 'rate_limit_error',
  500: 'server_error',
  502: 'upstream_error',
  503: 'server_error',
};

/** Returns the `type` of an error in the OpenAI interfaces for an HTTP status. See docs/errors.md "The envelope". */
export function errorType(http: ErrorFacets['http']): string {
  return byStatus[http];
}

const messagesByStatus: Readonly<Record<ErrorFacets['http'], string>> = {
  400: 'invalid_request_error',
  401: 'authentication_error',
  403: 'permission_error',
  404: 'not_found_error',
  409: 'invalid_request_error',
  413: 'request_too_large',
  422: 'invalid_request_error',
  429: 'rate_limit_error',
  500: 'api_error',
  502: 'api_error',
  503: 'overloaded_error',
};

/** Returns the `type` of an error in the Anthropic interface for an HTTP status. See docs/errors.md "The envelope". */
export function messagesErrorType(http: ErrorFacets['http']): string {
  return messagesByStatus[http];
}
