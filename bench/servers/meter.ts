/**
 * Preloaded into a gateway (`--import`), counts the promises that its main thread makes and the bytes that it allocates, and takes profiles. It listens
 * on the Unix socket named by `BENCH_METER`; `load/meter.ts` asks it. The runs that measure time or memory do without it.
 */
import { Session } from 'node:inspector/promises';
import { createServer } from 'node:net';
import { getHeapStatistics, promiseHooks } from 'node:v8';
import { isMainThread } from 'node:worker_threads';

/** Undefined until the first question: a hook for promises would be seen in a profile. */
let promises: number | undefined;
const session = new Session();

function countPromises(): number {
  if (promises === undefined) {
    promises = 0;
    promiseHooks.onInit(() => {
      promises = (promises ?? 0) + 1;
    });
  }
  return promises;
}

const answers: Readonly<Record<string, () => Promise<unknown>>> = {
  count: async () => ({ promises: countPromises(), bytes: getHeapStatistics().total_allocated_bytes }),
  'start profile': async () => {
    session.connect();
    await session.post('Profiler.enable');
    await session.post('Profiler.setSamplingInterval', { interval: 500 });
    return session.post('Profiler.start');
  },
  'stop profile': async () => (await session.post('Profiler.stop')).profile,
};

if (isMainThread) {
  const server = createServer(socket => {
    socket.setEncoding('utf8').once('data', question => {
      void answers[String(question)]?.().then(answer => socket.end(JSON.stringify(answer)));
    });
  });
  server.listen(process.env['BENCH_METER']).unref();
}
