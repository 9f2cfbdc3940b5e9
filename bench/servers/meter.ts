/**
 * Preloaded into a gateway (`--import`), counts the promises that its main thread makes and the bytes that it
 * allocates, and takes profiles. It listens on the Unix socket named by `BENCH_METER`, for `load/meter.ts`. The runs
 * that measure time or memory do without it.
 */
import { createServer } from 'node:net';
import { getHeapStatistics, promiseHooks, startCpuProfile, type SyncCPUProfileHandle } from 'node:v8';
import { isMainThread } from 'node:worker_threads';

/** Undefined until the first question: a hook for promises would be seen in a profile. */
let promises: number | undefined;
let profile: SyncCPUProfileHandle | undefined;

function count(): string {
  if (promises === undefined) {
    promises = 0;
    promiseHooks.onInit(() => {
      promises = (promises ?? 0) + 1;
    });
  }
  return JSON.stringify({ promises, bytes: getHeapStatistics().total_allocated_bytes });
}

/** Returns the profile that was started before; starts one and returns null if there is none. */
function toggleProfile(): string {
  const taken = profile?.stop();
  profile = taken === undefined ? startCpuProfile({ sampleInterval: 0.5 }) : undefined;
  return taken ?? 'null';
}

if (isMainThread) {
  const server = createServer(socket => {
    socket.setEncoding('utf8').once('data', question => {
      socket.end(String(question) === 'count' ? count() : toggleProfile());
    });
  });
  server.listen(process.env['BENCH_METER']).unref();
}
