import { readdirSync } from 'node:fs';
import { performance } from 'node:perf_hooks';
import process from 'node:process';
import { Numbers } from './families.ts';

const microseconds = 1e6;
const startedAtSeconds = performance.timeOrigin / 1000;

/** Returns the current values of the metrics that Prometheus' client libraries have for every process, under the usual names. */
export function processFamilies(): Numbers[] {
  const { user, system } = process.cpuUsage();
  const { rss, heapUsed } = process.memoryUsage();
  const descriptors = countOpenDescriptors();
  return [
    plain(
      'counter',
      'process_cpu_seconds_total',
      'CPU time of the process in seconds.',
      (user + system) / microseconds,
    ),
    plain('gauge', 'process_resident_memory_bytes', 'Resident memory of the process.', rss),
    plain(
      'gauge',
      'process_start_time_seconds',
      'When the process started, in seconds since 1970 UTC.',
      startedAtSeconds,
    ),
    ...(descriptors === undefined ? [] : [plain('gauge', 'process_open_fds', 'Open file descriptors.', descriptors)]),
    plain('gauge', 'nodejs_heap_used_bytes', 'Used heap of the main thread.', heapUsed),
    plain(
      'gauge',
      'nodejs_eventloop_utilization',
      'Share of the time since the start in which the main event loop was busy, 0 to 1.',
      performance.eventLoopUtilization().utilization,
    ),
  ];
}

function plain(type: 'counter' | 'gauge', name: string, help: string, value: number): Numbers {
  const family = new Numbers(type, { name, help });
  family.of().value = value;
  return family;
}

/** Returns the number of open file descriptors; undefined if the system does not provide it. */
function countOpenDescriptors(): number | undefined {
  try {
    return readdirSync('/proc/self/fd').length;
  } catch {
    return undefined;
  }
}
