import { dollars, fullDollars } from '../data/money.ts';
import { durationText, fullTime, timeText } from '../data/time.ts';

/** Shows an amount of money; all its digits are in the title. */
export function Amount({ nano }: { readonly nano: bigint }) {
  const decimals = nano % 1_000n === 0n ? 'six-decimals' : 'nine-decimals';
  return (
    <span className={`number ${decimals}${nano < 0n ? ' failed' : ''}`} title={fullDollars(nano)}>
      {dollars(nano)}
    </span>
  );
}

/** Shows a time in the viewer's zone; date, zone and UTC are in the title. */
export function Moment({ ms }: { readonly ms: bigint | number }) {
  return (
    <time className="number" dateTime={new Date(Number(ms)).toISOString()} title={fullTime(ms)}>
      {timeText(ms)}
    </time>
  );
}

/** Shows a duration, with its unit in smaller letters. */
export function Duration({ ms }: { readonly ms: bigint | number }) {
  const [value = '', ...unit] = durationText(ms).split(' ');
  return (
    <span className="number">
      {value} <span className="unit">{unit.join(' ')}</span>
    </span>
  );
}
