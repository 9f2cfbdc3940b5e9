import type { FastifyInstance } from 'fastify';
import type { Generations } from '../core/generation/generations.ts';
import type { Responses } from '../core/responses/responses.ts';
import type { Embeddings } from '../core/embeddings/embeddings.ts';
import type { Batches } from '../core/batches/batches.ts';
import type { Images } from '../core/images/images.ts';
import type { RpcListener } from '../rpc/listener.ts';
import type { Documents } from '../store/documents.ts';
import type { Files } from '../store/files.ts';
import type { Ledger } from '../ledger/ledger.ts';

/** How long a cut answer may take to settle and to tell its client. */
const cutMs = 5_000;

/** What is ended. */
export interface StoppingParts {
  readonly edge: FastifyInstance;
  readonly rpc: RpcListener;
  readonly ledger: Ledger;
  readonly documents: Documents;
  readonly files: Files;
  readonly generations: Generations;
  readonly responses: Responses;
  readonly images: Images;
  readonly embeddings: Embeddings;
  readonly batches: Batches;
  readonly graceMs: number;
  /** Returns why what is kept can't be written; undefined: it can. */
  readonly unready: () => string | undefined;
}

/** Returns what ends a gateway, once: no new requests, streams in flight get the grace, the rest is cut and settled. `stop` resolves with whether all of it is stored; `hurry` ends the grace. Source: decisions §1, "stopping". */
export function createStopping(parts: StoppingParts): { stop: () => Promise<boolean>; hurry: () => void } {
  const hurry = Promise.withResolvers<void>();
  let stopped: Promise<boolean> | undefined;
  return { stop: () => (stopped ??= stop(parts, hurry.promise)), hurry: hurry.resolve };
}

async function stop(parts: StoppingParts, hurried: Promise<void>): Promise<boolean> {
  const { edge, rpc, ledger, documents, files, generations, responses, images, embeddings, batches } = parts;
  const { graceMs, unready } = parts;
  rpc.drain();
  generations.drain();
  embeddings.drain();
  batches.drain();
  const drained = images.drain();
  const idle = (): Promise<unknown> =>
    Promise.all([generations.idle(), images.idle(), embeddings.idle(), batches.idle(), drained]);
  await Promise.race([idle(), after(graceMs), hurried]);
  generations.cutAll();
  images.cutAll();
  embeddings.cutAll();
  await Promise.race([idle(), after(cutMs)]);
  // What became of the responses in the background.
  await Promise.race([responses.idle(), after(cutMs)]);
  await Promise.all([edge.close(), rpc.close(cutMs)]);
  // A disk that stays full must not keep the process: what it never took is what a crash leaves, and is given back at the next start.
  await Promise.race([batches.close(), after(cutMs)]);
  const closed = Promise.all([documents.close(), ledger.close(), files.close()]).then(() => unready() === undefined);
  return Promise.race([closed, after(cutMs).then(() => false)]);
}

function after(ms: number): Promise<void> {
  return new Promise(resolve => {
    setTimeout(resolve, ms).unref();
  });
}
