import { useQueryClient } from '@tanstack/react-query';
import { createContext, type ReactNode, useContext, useEffect, useState, useSyncExternalStore } from 'react';
import { LiveChannel, type LiveState } from '../data/live.ts';
import { identityKey } from '../data/rpc.ts';
import type { Viewer } from '../data/viewer.ts';

const nothing: LiveState = { isLost: false };
const LiveContext = createContext<LiveState>(nothing);
/** Queries of a page are read again at most so often while money moves. */
const refreshMs = 1_000;

/** Keeps the stream of what happens now for every page, and reads the page's other numbers again when the ledger has grown. */
export function LiveProvider({ viewer, children }: { readonly viewer: Viewer; readonly children: ReactNode }) {
  const { sessionId, accountId, role } = viewer;
  const [channel, setChannel] = useState<LiveChannel>();
  useEffect(() => {
    const opened = new LiveChannel({ sessionId, accountId, isOperator: role === 'operator' });
    setChannel(opened);
    return () => opened.close();
  }, [sessionId, accountId, role]);
  const state = useSyncExternalStore(channel?.subscribe ?? subscribeNothing, channel?.read ?? readNothing);
  useRefresh(state);
  return <LiveContext value={state}>{children}</LiveContext>;
}

/** Returns what happens now. */
export function useLive(): LiveState {
  return useContext(LiveContext);
}

function subscribeNothing(): () => void {
  return () => undefined;
}

function readNothing(): LiveState {
  return nothing;
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
