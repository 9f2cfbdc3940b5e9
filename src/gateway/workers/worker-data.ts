/** The data that a worker starts with. */
export interface WorkerData {
  /** From 1 on. */
  readonly number: number;
  /** The number of workers. */
  readonly count: number;
  readonly host: string;
  readonly port: number;
  /** `--config` of the command line. */
  readonly configPath: string | undefined;
  /** See `KnownCredentials`. */
  readonly credentialVersion: SharedArrayBuffer;
  /** A number that the worker raises while its event loop turns. */
  readonly pulse: SharedArrayBuffer;
}

/** Interval at which a worker raises its pulse. */
export const pulseMs = 500;

/** Returns the instance number in the ids that a worker makes. Edges in other processes have numbers from 1 up, so workers are numbered from 63 down. */
export function workerInstance(number: number): number {
  return 64 - number;
}
