import { useEffect, useState } from 'react';
import { nowMs } from './time.ts';

const hourMs = 3_600_000;
const currentHour = (): number => Math.floor(nowMs() / hourMs);

/** Returns the UTC hour since 1970, and renders again when the next one begins: a page that stays open goes on with the time. */
export function useHour(): number {
  const [hour, setHour] = useState(currentHour);
  useEffect(() => {
    const timer = setTimeout(() => setHour(currentHour()), (hour + 1) * hourMs - nowMs() + 1);
    return () => clearTimeout(timer);
  }, [hour]);
  return hour;
}
