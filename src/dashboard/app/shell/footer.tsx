import { clockText, zone } from '../data/time.ts';
import { useLive } from './live-context.tsx';

/** Shows up to which entry of the ledger the numbers are, how fresh they are, and the time zone of the times. */
export function Footer() {
  const { message, isLost } = useLive();
  return (
    <footer className="foot">
      {message !== undefined && (
        <>
          <span>
            <span className={isLost ? 'live-dot live-dot-lost' : 'live-dot'} />
            {isLost ? 'not connected' : 'live'}
          </span>
          <span>as of {clockText(message.atMs)}</span>
          {message.lastEntry > 0n && <span>entry {`${message.lastEntry}`}</span>}
        </>
      )}
      <span>times in {zone}</span>
    </footer>
  );
}

/** Shows a message while the connection is lost. */
export function ConnectionBanner() {
  const { message, isLost } = useLive();
  if (!isLost) return null;
  return (
    <p role="status" className="banner">
      The connection to the gateway was lost.{' '}
      {message !== undefined && `The numbers are those of ${clockText(message.atMs)}.`} The page tries again by itself.
    </p>
  );
}
