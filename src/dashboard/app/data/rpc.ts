import { Code, ConnectError } from '@connectrpc/connect';
import { createConnectTransport } from '@connectrpc/connect-web';
import { QueryCache, QueryClient } from '@tanstack/react-query';
import { ErrorDetailSchema } from '../../../gen/tollgate/v1/error_pb.ts';

/** Calls of the signed-in person: the session's cookie is the credential. */
export const transport = createConnectTransport({ baseUrl: '/dashboard/rpc', useBinaryFormat: true });

const dayMs = 86_400_000;
const signedOut = new EventTarget();

/** Calls `listener` each time that a call was refused because the session has ended. Returns how to stop. */
export function onSignedOut(listener: () => void): () => void {
  signedOut.addEventListener('ended', listener);
  return () => signedOut.removeEventListener('ended', listener);
}

/** Notes that a call failed, so that an ended session leads to the sign-in page. */
export function noteFailure(error: unknown): void {
  if (ConnectError.from(error).code === Code.Unauthenticated) signedOut.dispatchEvent(new Event('ended'));
}

/** The cache key of the signed-in person. */
export const identityKey = ['identity'];

/** Forgets all that was read for one person before another signs in. */
export function forgetReads(): void {
  queryClient.removeQueries({ predicate: ({ queryKey }) => queryKey[0] !== identityKey[0] });
}

/** Caches everything that was read. Amounts are bigints, which JSON lacks, so keys are hashed with a mark of their own. */
export const queryClient = new QueryClient({
  queryCache: new QueryCache({
    onError: (error, { queryKey }) => {
      // The sign-in page itself shows why a sign-in failed.
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

/** A failed call, as shown to a person. Absent `tip` and `requestId`: the gateway sent none. */
export interface Fault {
  readonly message: string;
  readonly code?: string;
  readonly tip?: string;
  readonly requestId?: string;
}

/** Reads the gateway's own words from an error. A call that got no answer is a lost connection. */
export function readFault(thrown: unknown): Fault {
  const error = ConnectError.from(thrown);
  const [detail] = error.findDetails(ErrorDetailSchema);
  if (detail !== undefined) {
    const { message, code, tip, requestId } = detail;
    return { message, code, ...(tip !== '' && { tip }), ...(requestId !== '' && { requestId }) };
  }
  if (error.cause instanceof TypeError || error.code === Code.Unavailable) {
    return {
      message: 'The connection to the gateway is lost.',
      tip: 'The page tries again by itself. Check that the gateway runs.',
    };
  }
  return { message: error.rawMessage };
}
