// Is loaded into every thread of a gateway (NODE_OPTIONS). A worker throws an uncaught error when a file with its number appears in the folder TEST_DEATHS.
import { existsSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { isMainThread, workerData } from 'node:worker_threads';

if (!isMainThread && workerData?.pulse !== undefined) {
  const order = join(process.env.TEST_DEATHS, String(workerData.number));
  setInterval(() => {
    if (!existsSync(order)) return;
    rmSync(order);
    throw new Error('the test wants it');
  }, 20).unref();
}
