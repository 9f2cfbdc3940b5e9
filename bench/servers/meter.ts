/**
 * A module that is preloaded into a gateway (`--import`). It counts the promises that its main thread makes and the bytes that it
 * allocates, and takes profiles. It listens on the Unix socket in `BENCH_METER`, for `bench/load/meter.ts`. Runs
 * that measure time or memory do not use it.
 */
import { createServer } from 'node:net';
import { getHeapStatistics, promiseHooks, startCpuProfile, type SyncCPUProfileHandle } from 'node:v8';
import { isMainThread } from 'node:worker_threads';

/** The number of promises; undefined until it is first read, because the hook that counts them would appear in profiles. */
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

/** Ends a running profile and returns it; if none runs, starts one, with a sample each 0.5 ms, and returns 'null'. */
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
