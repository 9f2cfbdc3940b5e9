/**
 * Is loaded into a gateway before anything else (`NODE_OPTIONS=--import`), and records how much CPU time its main thread took between each request with the header `x-measured` and the end of its answer: what the request
 * waited for, whatever else the machine did. It keeps the latest value of each request in a file.
 */
import { subscribe } from 'node:diagnostics_channel';
import { appendFileSync } from 'node:fs';
import { isMainThread } from 'node:worker_threads';

const file = process.env.RECORD_WAITS_FILE;
const begun = new WeakMap();

function readCpuMs() {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1000;
}

if (file !== undefined && isMainThread) {
  subscribe('http.server.request.start', ({ request }) => {
    if (request.headers['x-measured'] !== undefined) begun.set(request, readCpuMs());
  });
  subscribe('http.server.response.finish', ({ request }) => {
    const beganMs = begun.get(request);
    if (beganMs !== undefined) appendFileSync(file, `${(readCpuMs() - beganMs).toFixed(1)}\n`);
  });
}
