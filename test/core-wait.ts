import { existsSync, readdirSync, readFileSync } from 'node:fs';

/**
 * Returns how long a process has waited for a core that other programs used, in ms: the waits of its main thread, and of the other thread that waited longest. Threads that work one after the other
 * wait one after the other; those that work at the same time wait at the same time, so only one of them counts. 0 where the system does not tell (Linux does).
 */
export function readCoreWait(pid: number): number {
  const folder = `/proc/${pid}/task`;
  if (!existsSync(`${folder}/${pid}/schedstat`)) return 0;
  const readWait = (thread: string): number => {
    // Three numbers: time on a core, time of waiting for one, both in ns, and the number of slices.
    const [, waitedNs] = readFileSync(`${folder}/${thread}/schedstat`, 'utf8').split(' ');
    return Number(waitedNs) / 1e6;
  };
  const others = readdirSync(folder).filter(thread => thread !== String(pid));
  return readWait(String(pid)) + Math.max(0, ...others.map(readWait));
}
