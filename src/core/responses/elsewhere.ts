import { GatewayError } from '../../errors/gateway-error.ts';
import { ResponseStatus } from '../../gen/tollgate/v1/response_pb.ts';
import type { Runtime } from '../../lib/runtime.ts';
import type { Claims } from '../../store/claims.ts';
import type { DocumentName, Documents, StoredDocument } from '../../store/documents.ts';
import { type Answer, eventsIn, toAnswer } from './stored-response.ts';

/** Interval at which a gateway checks whether another one has stored more of a response, or wants one of its own to end. */
const lookMs = 500;
/** How long to wait for a response of another gateway to end. */
const endMs = 10_000;
const chunksAtOnce = 64;
const cancelPrefix = 'cancel response ';

/** What reading the responses of other gateways needs. */
interface ElsewhereDependencies {
  readonly documents: Documents;
  readonly runtime: Pick<Runtime, 'after'>;
  /** Claims of all gateways; undefined: there is no other one. */
  readonly sharedClaims: Claims | undefined;
  /** The responses that run here. */
  readonly jobs: ReadonlyMap<string, { cancel(): void }>;
}

/** Responses in the background that another gateway runs: read from what it stores, and ended by a claim that it finds. */
export class Elsewhere {
  readonly #dependencies: ElsewhereDependencies;

  constructor(dependencies: ElsewhereDependencies) {
    this.#dependencies = dependencies;
  }

  /** True if there may be other gateways. */
  get hasOthers(): boolean {
    return this.#dependencies.sharedClaims !== undefined;
  }

  /** Returns true if a response runs in another gateway. */
  runs({ id, state }: Pick<StoredDocument, 'id' | 'state'>): boolean {
    const { sharedClaims, jobs } = this.#dependencies;
    return sharedClaims !== undefined && state === 'running' && !jobs.has(id);
  }

  /** Returns its progress. */
  async progress(name: DocumentName): Promise<{ readonly status: ResponseStatus; readonly answer: Answer }> {
    const events = [];
    for (let after = -1; ;) {
      const chunks = await this.#dependencies.documents.chunks(name, after, chunksAtOnce);
      events.push(...chunks.flatMap(({ content }) => eventsIn(content)));
      const last = chunks.at(-1);
      if (last === undefined) break;
      after = last.seq;
    }
    const status = events.length === 0 ? ResponseStatus.QUEUED : ResponseStatus.IN_PROGRESS;
    return { status, answer: toAnswer(name.id, events, false) };
  }

  /** Resolves when it is time to look again. */
  async wait(): Promise<void> {
    await new Promise<void>(resolve => {
      this.#dependencies.runtime.after(lookMs, resolve);
    });
  }

  /** Ends a response; resolves when its end is stored. Throws `overloaded` if that takes too long. */
  async end(name: DocumentName): Promise<void> {
    const { sharedClaims, documents } = this.#dependencies;
    const claim = cancelPrefix + name.id;
    await sharedClaims?.take(claim, '');
    try {
      for (let waitedMs = 0; waitedMs < endMs; waitedMs += lookMs) {
        const document = await documents.find(name);
        if (document === undefined || !this.runs(document)) return;
        await this.wait();
      }
    } finally {
      sharedClaims?.release(claim);
    }
    throw new GatewayError('overloaded', 'The gateway that runs the response does not answer.', {
      retryAfterMs: 5_000,
    });
  }

  /** Ends responses of this process that other gateways want to end, now and from now on. */
  watch(): void {
    const { sharedClaims, jobs, runtime } = this.#dependencies;
    if (sharedClaims === undefined) return;
    const look = async (): Promise<void> => {
      if (jobs.size === 0) return;
      for (const name of await sharedClaims.list(cancelPrefix)) jobs.get(name.slice(cancelPrefix.length))?.cancel();
    };
    const timer = runtime.after(lookMs, () => {
      // A response that can't be read now is read at the next look.
      void look()
        .catch(() => undefined)
        .finally(() => timer.restart(lookMs));
    });
  }
}
