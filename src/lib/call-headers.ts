/** Names a request that its caller may repeat: the same key again is the same answer. A caller's own word, in metadata as in HTTP. */
export const idempotencyKeyHeader = 'idempotency-key';

/** In which the edge says to the core of its process what a key's body was; the network listener strips it, so that nobody else can. */
export const fingerprintHeader = 'x-tollgate-fingerprint';
