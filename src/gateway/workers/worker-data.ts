/** The data that a worker starts with. */
export interface WorkerData {
  /** The number of the worker, from 1. */
  readonly number: number;
  /** How many workers there are. */
  readonly count: number;
  readonly host: string;
  readonly port: number;
  /** The option `--config` of the command line; undefined: it was not given. */
  readonly configPath: string | undefined;
  /** See `KnownCredentials`. */
  readonly credentialVersion: SharedArrayBuffer;
  /** The memory of the worker's `HeldIds`. */
  readonly held: SharedArrayBuffer;
  /** A number that the worker raises as long as its event loop runs. */
  readonly pulse: SharedArrayBuffer;
}

/** How often a worker raises its pulse. */
export const pulseMs = 500;

/** Returns the instance number in the ids that a worker makes. Workers have numbers from 63 down, because edges in other processes have numbers from 1 up. */
export function workerInstance(number: number): number {
  return 64 - number;
}
