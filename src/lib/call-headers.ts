/** The header with an idempotency key: a repeated request with the same key gets the same answer. It is used in HTTP and in RPC metadata. */
export const idempotencyKeyHeader = 'idempotency-key';

/** The header with the hash of the body of a request with an idempotency key, from an edge to the core. The network listener removes it from all other calls. */
export const fingerprintHeader = 'x-tollgate-fingerprint';

/** The header in which an edge in another process sends the edge token. */
export const edgeHeader = 'x-tollgate-edge';

/**
 * The header with the id of the API key for which a service, or a person at the dashboard, acts. It is read only for service tokens with the
 * scope `generate` and for sessions.
 */
export const apiKeyIdHeader = 'x-tollgate-api-key-id';

/** The header with a caller's network address, from a listener to the core. The network listener removes it if a caller sends it. */
export const clientAddressHeader = 'x-tollgate-client-address';

/** The header with the id of the account that a call of the operator at the dashboard is about. It is read only for sessions of the operator. */
export const accountIdHeader = 'x-tollgate-account-id';

/**
 * The header in which the network listener passes a checked `apiKeyIdHeader` to the core. It removes the header if a
 * caller sends it.
 */
export const actsForHeader = 'x-tollgate-acts-for';

/** The header that says through which listener a call of the dashboard came: `public`; absent: the internal one. */
export const dashboardListenerHeader = 'x-tollgate-dashboard';
