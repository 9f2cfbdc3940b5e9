import { useEffect, useState } from 'react';
import { nowMs } from './time.ts';

const hourMs = 3_600_000;
const currentHour = (): number => Math.floor(nowMs() / hourMs);

/** Returns the number of hours since 1970 (UTC), and renders again when the next hour begins, so that an open page stays current. */
export function useHour(): number {
  const [hour, setHour] = useState(currentHour);
  useEffect(() => {
    const timer = setTimeout(() => setHour(currentHour()), (hour + 1) * hourMs - nowMs() + 1);
    return () => clearTimeout(timer);
  }, [hour]);
  return hour;
}
