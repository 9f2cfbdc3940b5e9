import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import { getPriority } from 'node:os';
import { Worker } from 'node:worker_threads';
import { expect, test } from 'vitest';
import { lowerV8Priority } from './thread-priority.ts';

/** Returns the nice values of this process's threads, by name. */
function readNice(): { name: string; nice: number }[] {
  return readdirSync('/proc/self/task').map(id => {
    const stat = readFileSync(`/proc/self/task/${id}/stat`, 'utf8');
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    return { name: stat.slice(stat.indexOf('(') + 1, stat.lastIndexOf(')')), nice: Number(fields[16]) };
  });
}

test("V8's threads and a thread that asks for it get a lower priority, others keep theirs", async () => {
  const own = getPriority();
  const low = Math.min(own + 10, 19);
  lowerV8Priority();
  const v8 = readNice().filter(({ name }) => name === 'node-V8Worker');
  expect(v8.length).toBeGreaterThan(0);
  expect(new Set(v8.map(({ nice }) => nice))).toEqual(new Set([low]));
  const module = new URL('thread-priority.ts', import.meta.url).href;
  const code = `import('${module}').then(({ lowerOwnPriority }) => { lowerOwnPriority(); require('node:worker_threads').parentPort.postMessage(0); setInterval(() => 0, 1000); });`;
  const worker = new Worker(code, { eval: true });
  await once(worker, 'message');
  const workers = readNice().filter(({ name, nice }) => name === 'WorkerThread' && nice === low);
  await worker.terminate();
  expect(workers).toHaveLength(1);
  expect(getPriority()).toBe(own);
});
