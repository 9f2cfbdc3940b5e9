import type { ResponseHead } from './error-answer.ts';
import type { OutgoingBody } from './outgoing-json.ts';

/** A request without its credential. */
export interface UnsignedRequest {
  readonly method: 'GET' | 'POST';
  /** "https://host" */
  readonly origin: string;
  /** The path and query. */
  readonly path: string;
  /** Alternating names (in lower case) and values. */
  readonly headers: readonly string[];
  readonly body: OutgoingBody | null;
}

/** The headers and address that a signer gives a request. */
export interface SignedRequest {
  readonly path: string;
  readonly headers: string[];
}

/** Adds credentials that end, or that depend on the request. One signer serves all requests of a provider. */
export interface RequestSigner {
  /** Returns the request with its credential. Rejects with `CredentialError` if there is none. */
  sign(request: UnsignedRequest): Promise<SignedRequest>;
  /** Called when the provider refused a signed request. Returns true if that may be because its credential has ended: the request is then signed and sent once more. */
  mayRenew(head: ResponseHead): boolean;
}

/** There is no credential for a cloud. The message is for the operator; it contains no credential, and clients never get it. */
export class CredentialError extends Error {
  override readonly name = 'CredentialError';
}
