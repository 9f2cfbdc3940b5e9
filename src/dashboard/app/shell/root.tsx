import { Code, ConnectError, createClient } from '@connectrpc/connect';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useSearch } from '@tanstack/react-router';
import { useEffect } from 'react';
import { DashboardService } from '../../../gen/tollgate/v1/dashboard_pb.ts';
import { forgetReads, identityKey, onSignedOut, transport } from '../data/rpc.ts';
import { toViewer } from '../data/viewer.ts';
import { Problem } from '../parts/page.tsx';
import { linkToken } from './link-token.ts';
import { Shell } from './shell.tsx';
import { SignIn } from './sign-in.tsx';

const sessions = createClient(DashboardService, transport);
const firstAccount = 1;

/** The use of the sign-in link in the address, which happens before the identity is read, and only once for all renders. */
let linkUse: Promise<unknown> | undefined;

/** Returns the person who is signed in; null if nobody is. */
async function readIdentity(token: string | undefined) {
  if (token !== undefined) await (linkUse ??= sessions.signIn({ credential: token }));
  try {
    return await sessions.whoAmI({});
  } catch (error) {
    if (ConnectError.from(error).code === Code.Unauthenticated) return null;
    throw error;
  }
}

/** The whole app: the sign-in page, or the shell with the page that the address names. */
export function Root() {
  const { account = firstAccount } = useSearch({ strict: false });
  const client = useQueryClient();
  const { data, error, refetch } = useQuery({
    queryKey: identityKey,
    queryFn: () => readIdentity(linkToken),
    staleTime: Infinity,
    retry: false,
  });
  useEffect(() => onSignedOut(() => client.setQueryData(identityKey, null)), [client]);
  const { mutate: signOut } = useMutation({
    mutationFn: () => sessions.signOut({}),
    onSettled: () => {
      forgetReads();
      client.setQueryData(identityKey, null);
    },
  });
  const viewer = data == null ? undefined : toViewer(data, BigInt(account));
  if (viewer !== undefined) return <Shell viewer={viewer} onSignOut={() => signOut()} />;
  if (data === undefined && error === null) return <p className="page quiet">Loading the dashboard…</p>;
  const isRefused = error !== null && ConnectError.from(error).code === Code.Unauthenticated;
  if (error !== null && !isRefused) {
    return (
      <main className="page">
        <Problem error={error} retry={() => void refetch()} />
      </main>
    );
  }
  return <SignIn hasProvider={data?.hasProvider ?? false} failure={error} onSignedIn={() => void signedIn()} />;

  async function signedIn(): Promise<void> {
    forgetReads();
    client.setQueryData(identityKey, await sessions.whoAmI({}));
  }
}
