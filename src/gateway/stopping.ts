import type { Responses } from '../core/responses/responses.ts';
import type { StoppableService } from '../core/running-requests.ts';
import type { Deliveries } from '../core/webhooks/deliveries.ts';
import type { Batches } from '../core/batches/batches.ts';
import type { RpcListener } from '../rpc/listener.ts';
import type { Documents } from '../store/documents.ts';
import type { Files } from '../store/files.ts';
import type { Ledger } from '../ledger/ledger.ts';

/**
 * How long each of the three steps after the grace period may take: interrupted answers are settled and their clients informed, the listeners close, the stores close. docs/architecture.md "Starting and stopping" states the longest stop, and the unit, image and chart in `deploy` wait for it.
 */
const stepMs = 5_000;

/** The parts to be stopped. */
export interface StoppingOptions {
  readonly edge: { close(): Promise<unknown> };
  readonly rpc: RpcListener;
  readonly ledger: Ledger;
  readonly documents: Documents;
  readonly deliveries: Deliveries;
  readonly stopRetention: () => void;
  readonly files: Files;
  /** The services that run requests. */
  readonly services: readonly StoppableService[];
  readonly responses: Responses;
  readonly batches: Pick<Batches, 'close'>;
  readonly graceMs: number;
  /** Returns why storage can't be written now; undefined: it can. */
  readonly unready: () => string | undefined;
}

/** Returns the functions that stop a gateway. `stop`: new requests are refused, running ones may continue for the grace period, then they are interrupted and settled; it resolves to whether everything was stored, and further calls return the same promise. `hurry` ends the grace period. Source: docs/architecture.md "Starting and stopping". */
export function createStopping(parts: StoppingOptions): { stop: () => Promise<boolean>; hurry: () => void } {
  const hurry = Promise.withResolvers<void>();
  let stopped: Promise<boolean> | undefined;
  return { stop: () => (stopped ??= stop(parts, hurry.promise)), hurry: hurry.resolve };
}

async function stop(parts: StoppingOptions, hurried: Promise<void>): Promise<boolean> {
  const { edge, rpc, ledger, documents, files, services, responses, batches, graceMs, unready } = parts;
  parts.deliveries.stop();
  parts.stopRetention();
  rpc.drain();
  await endRequests({ services, responses, graceMs }, hurried);
  const listeners = Promise.all([edge.close(), rpc.close(stepMs)]);
  await Promise.race([listeners.then(() => batches.close()), after(stepMs)]);
  // Waits only for a limited time, because a disk that stays full must not block the process. What was not written is lost as in a crash, and its holds are voided at the next start.
  const closed = Promise.all([documents.close(), ledger.close(), files.close()]).then(() => unready() === undefined);
  return Promise.race([closed, after(stepMs).then(() => false)]);
}

/** Refuses new requests and waits for running ones. After the grace period, or when `hurried` resolves, they are interrupted and settled. */
export async function endRequests(
  { services, responses, graceMs }: Pick<StoppingOptions, 'services' | 'responses' | 'graceMs'>,
  hurried: Promise<void>,
): Promise<void> {
  const drained = services.map(service => service.drain());
  const idle = (): Promise<unknown> => Promise.all([...services.map(service => service.idle()), ...drained]);
  await Promise.race([idle(), after(graceMs), hurried]);
  for (const service of services) service.interruptAll();
  // Background responses end later than their generations.
  await Promise.race([idle().then(() => responses.idle()), after(stepMs)]);
}

function after(ms: number): Promise<void> {
  return new Promise(resolve => {
    setTimeout(resolve, ms).unref();
  });
}
