/** The header with which a caller names a request that it may repeat: the same key gets the same answer. It is used in RPC metadata and in HTTP. */
export const idempotencyKeyHeader = 'idempotency-key';

/** The header with the hash of a keyed request's body, from an edge to the core; the network listener removes it from all other calls. */
export const fingerprintHeader = 'x-tollgate-fingerprint';

/** The header in which an edge in another process sends the edge token. */
export const edgeHeader = 'x-tollgate-edge';

/**
 * The header with the id of the API key that a service, or a person at the dashboard, acts for; read only for service tokens with the scope
 * `generate` and for sessions.
 */
export const apiKeyIdHeader = 'x-tollgate-api-key-id';

/** The header with a caller's network address, from a listener to the core; the network listener removes it from what callers send. */
export const clientAddressHeader = 'x-tollgate-client-address';

/** The header with the id of the account that the operator's call at the dashboard is about; read only for sessions of the operator. */
export const accountIdHeader = 'x-tollgate-account-id';

/**
 * The header in which the network listener passes a checked `apiKeyIdHeader` to the core; it strips it from what
 * callers send.
 */
export const actsForHeader = 'x-tollgate-acts-for';

/** The header with the dashboard's listener of a call: `public`; absent: the internal one. */
export const dashboardListenerHeader = 'x-tollgate-dashboard';
