import { useSyncExternalStore } from 'react';
import { useQueryClient } from '@tanstack/react-query';
import { clockText, zone } from '../data/time.ts';

/** Says how fresh the numbers of the page are, and in which zone its times are. */
export function Footer() {
  const cache = useQueryClient().getQueryCache();
  const readAt = useSyncExternalStore(
    changed => cache.subscribe(changed),
    () => cache.findAll({ type: 'active' }).reduce((latest, { state }) => Math.max(latest, state.dataUpdatedAt), 0),
  );
  return (
    <footer className="foot">
      {readAt > 0 && <span>as of {clockText(readAt)}</span>}
      <span>times in {zone}</span>
    </footer>
  );
}
