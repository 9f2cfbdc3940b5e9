import type { Responses } from '../core/responses/responses.ts';
import type { StoppableService } from '../core/running-requests.ts';
import type { Deliveries } from '../core/webhooks/deliveries.ts';
import type { Batches } from '../core/batches/batches.ts';
import type { RpcListener } from '../rpc/listener.ts';
import type { Documents } from '../store/documents.ts';
import type { Files } from '../store/files.ts';
import type { Ledger } from '../ledger/ledger.ts';

/**
 * How long each of the three steps after the grace may take: cut answers settle and inform their clients, the listeners close, the stores
 * close. The longest stop is stated in docs/architecture.md "Starting and stopping" and waited for by the unit, image and chart in `deploy`.
 */
const stepMs = 5_000;

/** The parts to stop. */
export interface StoppingParts {
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
  /** Returns why storage can't be written; undefined: it can. */
  readonly unready: () => string | undefined;
}

/** Returns what ends a gateway, once: it takes no new requests, open streams get the grace period, and what remains is cut and settled. `stop` resolves with whether all of it is stored; `hurry` ends the grace. Source: docs/architecture.md "Starting and stopping". */
export function createStopping(parts: StoppingParts): { stop: () => Promise<boolean>; hurry: () => void } {
  const hurry = Promise.withResolvers<void>();
  let stopped: Promise<boolean> | undefined;
  return { stop: () => (stopped ??= stop(parts, hurry.promise)), hurry: hurry.resolve };
}

async function stop(parts: StoppingParts, hurried: Promise<void>): Promise<boolean> {
  const { edge, rpc, ledger, documents, files, services, responses, batches, graceMs, unready } = parts;
  parts.deliveries.stop();
  parts.stopRetention();
  rpc.drain();
  await endRequests({ services, responses, graceMs }, hurried);
  const listeners = Promise.all([edge.close(), rpc.close(stepMs)]);
  await Promise.race([listeners.then(() => batches.close()), after(stepMs)]);
  // A disk that stays full must not block the process: whatever was not written is as after a crash, and its holds are voided at the next
  // start.
  const closed = Promise.all([documents.close(), ledger.close(), files.close()]).then(() => unready() === undefined);
  return Promise.race([closed, after(stepMs).then(() => false)]);
}

/** Takes no new requests, and ends those that run: after the grace, or once `hurried` resolves, they are cut and settled. */
export async function endRequests(
  { services, responses, graceMs }: Pick<StoppingParts, 'services' | 'responses' | 'graceMs'>,
  hurried: Promise<void>,
): Promise<void> {
  const drained = services.map(service => service.drain());
  const idle = (): Promise<unknown> => Promise.all([...services.map(service => service.idle()), ...drained]);
  await Promise.race([idle(), after(graceMs), hurried]);
  for (const service of services) service.interruptAll();
  // Background responses end after their generations.
  await Promise.race([idle().then(() => responses.idle()), after(stepMs)]);
}

function after(ms: number): Promise<void> {
  return new Promise(resolve => {
    setTimeout(resolve, ms).unref();
  });
}
