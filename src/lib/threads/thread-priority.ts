import { readdirSync, readFileSync } from 'node:fs';
import { getPriority, setPriority } from 'node:os';

/** By how much the nice value of a thread that no answer waits for is higher: it then gets a tenth of the time that a normal thread gets on the same core. */
const niceStep = 10;
const niceMost = 19;
const threadsFolder = '/proc/self/task';
/** The name that Node.js gives to V8's threads. They compile functions and collect garbage. */
const v8ThreadName = 'node-V8Worker';

/** Lowers the priority of the calling thread. Only Linux has priorities of threads; elsewhere nothing is done. */
export function lowerOwnPriority(): void {
  // On Linux, 0 means the calling thread.
  if (process.platform === 'linux') lower(0);
}

/**
 * Lowers the priority of V8's threads. While one of them compiles a function, it would take turns of several milliseconds on the core of a thread that answers
 * requests. Only Linux has priorities of threads; elsewhere nothing is done.
 */
export function lowerV8Priority(): void {
  if (process.platform !== 'linux') return;
  for (const id of readdirSync(threadsFolder)) {
    if (readThreadName(id) === v8ThreadName) lower(Number(id));
  }
}

/** Returns a thread's name; '' if it has ended. */
function readThreadName(id: string): string {
  try {
    return readFileSync(`${threadsFolder}/${id}/comm`, 'utf8').trim();
  } catch {
    return '';
  }
}

function lower(threadId: number): void {
  try {
    setPriority(threadId, Math.min(getPriority() + niceStep, niceMost));
  } catch {
    // The thread has ended, or the system forbids it: everything works without.
  }
}
