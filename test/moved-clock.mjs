/** Loaded into a gateway before anything else (`NODE_OPTIONS=--import`), in each of its threads: its wall clock is apart by the milliseconds that a file says, also while it runs. */
import { readFileSync } from 'node:fs';

const file = process.env.MOVED_CLOCK_FILE;
const realNow = Date.now;

if (file !== undefined) {
  // `src/lib/clock.ts` is the only place that asks for the time. Read each time, so that a set clock is seen at once by every thread.
  Date.now = () => Math.floor(realNow() + Number(readFileSync(file, 'utf8')));
}
