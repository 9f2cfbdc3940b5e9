/**
 * Is loaded into a gateway before anything else (`NODE_OPTIONS=--import`), and records each time that its main thread computed for 10 ms or longer within one turn of the event loop. It measures CPU
 * time, which does not depend on other processes.
 */
import { appendFileSync } from 'node:fs';
import { isMainThread } from 'node:worker_threads';

const file = process.env.RECORD_HOLDS_FILE;
const leastMs = 10;

function readCpuMs() {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1000;
}

if (file !== undefined && isMainThread) {
  let lastMs = readCpuMs();
  const timer = setInterval(() => {
    const nowMs = readCpuMs();
    const heldMs = nowMs - lastMs;
    if (heldMs >= leastMs) appendFileSync(file, `${Date.now()} ${heldMs.toFixed(1)}\n`);
    lastMs = heldMs >= leastMs ? readCpuMs() : nowMs;
  }, 1);
  timer.unref();
}
