import { useQueryClient } from '@tanstack/react-query';
import { createContext, type ReactNode, useContext, useEffect, useMemo, useRef, useSyncExternalStore } from 'react';
import { LiveConnection, type LiveState } from '../data/live.ts';
import type { WatchNowResponse } from '../../../gen/tollgate/v1/dashboard_pb.ts';
import { nowMs } from '../data/time.ts';
import { identityKey } from '../data/rpc.ts';
import type { Viewer } from '../data/viewer.ts';

const nothing: LiveState = { isLost: false };
const LiveContext = createContext<LiveState>(nothing);
/** The shortest interval in which a page's queries are read again while money moves. */
const refreshMs = 1_000;

/**
 * Reads the stream of the current state for all pages, and reads the page's queries again when the ledger has new entries.
 */
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

/** Returns the current state of the stream. */
export function useLive(): LiveState {
  return useContext(LiveContext);
}

/** Reads the queries again when money has moved, at most once a second, so that all numbers of a page agree. */
function useRefresh({ message, isLost }: LiveState): void {
  const client = useQueryClient();
  const refreshedMs = useRef(0);
  const mark = message === undefined || isLost ? undefined : moneyMark(message);
  useEffect(() => {
    if (mark === undefined) return undefined;
    const refresh = (): void => {
      refreshedMs.current = nowMs();
      void client.invalidateQueries({ predicate: ({ queryKey }) => queryKey[0] !== identityKey[0] });
    };
    const timer = setTimeout(refresh, Math.max(0, refreshedMs.current + refreshMs - nowMs()));
    return () => clearTimeout(timer);
  }, [client, mark]);
}

/** Returns a text that changes when money may have moved: each settled request counts as an entry. */
function moneyMark({ lastEntry, runningCount, runningHeldNanoUsd, funds }: WatchNowResponse): string {
  return `${lastEntry} ${runningCount} ${runningHeldNanoUsd} ${funds?.balanceNanoUsd ?? ''}`;
}
