import { Code, ConnectError } from '@connectrpc/connect';
import { createConnectTransport } from '@connectrpc/connect-web';
import { QueryCache, QueryClient } from '@tanstack/react-query';
import { ErrorDetailSchema } from '../../../gen/tollgate/v1/error_pb.ts';
import { basePath } from './base-path.ts';

/** The transport for calls of the signed-in person; the session's cookie is the credential. */
export const transport = createConnectTransport({ baseUrl: `${basePath}/rpc`, useBinaryFormat: true });

const dayMs = 86_400_000;
const signedOut = new EventTarget();

/** Calls `listener` each time a call is refused because the session has ended. Returns a function that stops this. */
export function onSignedOut(listener: () => void): () => void {
  signedOut.addEventListener('ended', listener);
  return () => signedOut.removeEventListener('ended', listener);
}

/** Reports a failed call, so that the sign-in page is shown if the session has ended. */
export function noteFailure(error: unknown): void {
  if (ConnectError.from(error).code === Code.Unauthenticated) signedOut.dispatchEvent(new Event('ended'));
}

/** The cache key of the signed-in person. */
export const identityKey = ['identity'];

/** Removes all cached data except the identity, so that the next person who signs in sees nothing of it. */
export function forgetReads(): void {
  queryClient.removeQueries({ predicate: ({ queryKey }) => queryKey[0] !== identityKey[0] });
}

/** Caches the data of all queries. Query keys can contain bigints, which JSON does not have, so a bigint is written with the suffix `n`. */
export const queryClient = new QueryClient({
  queryCache: new QueryCache({
    onError: (error, { queryKey }) => {
      // A failed sign-in is shown by the sign-in page itself.
      if (queryKey[0] !== identityKey[0]) noteFailure(error);
    },
  }),
  defaultOptions: {
    queries: {
      staleTime: 5_000,
      gcTime: dayMs / 24,
      queryKeyHashFn: key =>
        JSON.stringify(key, (_, value: unknown) => (typeof value === 'bigint' ? `${value}n` : value)),
      retry: (failures, error) => failures < 2 && ConnectError.from(error).code === Code.Unavailable,
    },
    mutations: { onError: noteFailure },
  },
});

/** A failed call, as it is shown; `tip` and `requestId` are absent if the gateway sent none. */
export interface Fault {
  readonly message: string;
  readonly code?: string;
  readonly tip?: string;
  readonly requestId?: string;
}

/** Returns what the gateway said about an error. A call without an answer counts as a lost connection. */
export function readFault(thrown: unknown): Fault {
  const error = ConnectError.from(thrown);
  const [detail] = error.findDetails(ErrorDetailSchema);
  if (detail !== undefined) {
    const { message, code, tip, requestId } = detail;
    return { message, code, ...(tip !== '' && { tip }), ...(requestId !== '' && { requestId }) };
  }
  if (error.cause instanceof TypeError || error.code === Code.Unavailable) {
    return {
      message: 'The connection to the gateway was lost.',
      tip: 'The page tries again by itself. Check that the gateway is running.',
    };
  }
  return { message: error.rawMessage };
}
