/** Is loaded into each thread of a gateway before anything else (`NODE_OPTIONS=--import`), and shifts its wall clock by the milliseconds in a file, which may change while it runs. */
import { readFileSync } from 'node:fs';

const file = process.env.MOVED_CLOCK_FILE;
const realNow = Date.now;

if (file !== undefined) {
  // Only `src/lib/clock.ts` reads the time. The file is read each time, so that every thread sees a changed clock at once.
  Date.now = () => Math.floor(realNow() + Number(readFileSync(file, 'utf8')));
}
