/** Names a request that its caller may repeat: the same key again is the same answer. A caller's own word, in metadata as in HTTP. */
export const idempotencyKeyHeader = 'idempotency-key';

/** In which an edge says to the core what a key's body was; the network listener strips it from the calls of everybody else. */
export const fingerprintHeader = 'x-tollgate-fingerprint';

/** In which an edge in another process proves that it is one, by the edge token. */
export const edgeHeader = 'x-tollgate-edge';

/** In which a service, or a person at the dashboard, says whose API key it works for, by the key's id; read from service tokens with the scope `generate` and from sessions alone. */
export const apiKeyIdHeader = 'x-tollgate-api-key-id';

/** In which the listeners tell the core the network address of a caller; the network listener strips it from what callers send. */
export const clientAddressHeader = 'x-tollgate-client-address';

/** In which the operator at the dashboard says whose account a call is about, by its id; read from sessions of the operator alone. */
export const accountIdHeader = 'x-tollgate-account-id';

/**
 * The header in which the network listener passes a checked `apiKeyIdHeader` to the core; it strips it from what
 * callers send.
 */
export const actsForHeader = 'x-tollgate-acts-for';

/** The header in which the dashboard tells the core the listener of a call: `public`; absent: the internal one. */
export const dashboardListenerHeader = 'x-tollgate-dashboard';
