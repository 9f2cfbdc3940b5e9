/**
 * What an error of a provider means, on which retries, the rest of keys and the client's error depend.
 *
 * - `request`: the content of the request is refused: no other attempt would succeed
 * - `too_long`: the input is too long for the model
 * - `key`: the key is wrong
 * - `billing`: the operator's account with the provider can't pay; no other request with the key can succeed
 * - `permission`: the key may not be used for the model
 * - `model`: the provider lacks the model, or the path
 * - `limit`: a rate limit of the key for the model is reached
 * - `quota`: the same, with a message about the operator's quota that clients must not see
 * - `loading`: the model is still being loaded
 * - `temporary`: the provider says that the same request may succeed later
 * - `server`: the provider failed
 */
export type FailureMeaning =
  | 'request'
  | 'too_long'
  | 'key'
  | 'billing'
  | 'permission'
  | 'model'
  | 'limit'
  | 'quota'
  | 'loading'
  | 'temporary'
  | 'server';

/** The meaning of statuses, if the body does not say something else. 498 is Groq's status for flex requests that find no capacity. */
const byStatus: Readonly<Record<number, FailureMeaning>> = {
  400: 'request',
  401: 'key',
  402: 'billing',
  403: 'permission',
  408: 'temporary',
  409: 'temporary',
  413: 'request',
  422: 'request',
  429: 'limit',
  498: 'temporary',
};

/** Returns the meaning of a failure with a status; `meaning`: what the error's body says, undefined if it says nothing. Every other status below 500 means that the address or the model is wrong. */
export function readMeaning(status: number, meaning?: FailureMeaning): FailureMeaning {
  return meaning ?? byStatus[status] ?? (status >= 500 ? 'server' : 'model');
}
