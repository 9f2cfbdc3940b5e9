import { expect, test } from 'vitest';
import { errorTable } from './error-table.ts';
import { errorType } from './error-type.ts';

test('every code of the table has the type that its status has in the OpenAI interfaces', () => {
  const types = Object.fromEntries(Object.values(errorTable).map(({ http }) => [http, errorType(http)]));
  expect(types).toEqual({
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
  });
});
