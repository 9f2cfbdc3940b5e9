import { useQueryClient } from '@tanstack/react-query';
import { createContext, type ReactNode, useContext, useEffect, useMemo, useSyncExternalStore } from 'react';
import { LiveConnection, type LiveState } from '../data/live.ts';
import { identityKey } from '../data/rpc.ts';
import type { Viewer } from '../data/viewer.ts';

const nothing: LiveState = { isLost: false };
const LiveContext = createContext<LiveState>(nothing);
/** Queries of a page are read again at most so often while money moves. */
const refreshMs = 1_000;

/** Keeps the stream of what happens now for every page, and reads the page's other numbers again when the ledger has grown. */
export function LiveProvider({ viewer, children }: { readonly viewer: Viewer; readonly children: ReactNode }) {
  const { sessionId, accountId, role } = viewer;
  const connection = useMemo(
    () => new LiveConnection({ sessionId, accountId, isOperator: role === 'operator' }),
    [sessionId, accountId, role],
  );
  const state = useSyncExternalStore(connection.subscribe, connection.read);
  useRefresh(state);
  return <LiveContext value={state}>{children}</LiveContext>;
}

/** Returns what happens now. */
export function useLive(): LiveState {
  return useContext(LiveContext);
}

/** Numbers of all pages come from the same entries: a new one makes what was read stale. */
function useRefresh({ message, isLost }: LiveState): void {
  const client = useQueryClient();
  const entry = message?.lastEntry;
  const running = message?.runningCount;
  useEffect(() => {
    if (isLost) return undefined;
    const timer = setTimeout(
      () => void client.invalidateQueries({ predicate: ({ queryKey }) => queryKey[0] !== identityKey[0] }),
      refreshMs,
    );
    return () => clearTimeout(timer);
  }, [client, entry, running, isLost]);
}
