import { GatewayError } from '../../errors/gateway-error.ts';
import { ResponseStatus } from '../../gen/tollgate/v1/response_pb.ts';
import type { Runtime } from '../../lib/runtime.ts';
import type { Claims } from '../../store/claims.ts';
import { type DocumentName, type Documents, type StoredFacts, uncounted } from '../../store/documents.ts';
import { type Answer, decodeEvents, toAnswer } from './stored-response.ts';

/** How often a gateway checks whether another gateway has stored more of a response, or wants to end a response that runs here. */
const pollMs = 500;
/** How long to wait until a response that another gateway runs has ended. */
const endMs = 10_000;
const chunksAtOnce = 64;
const cancelPrefix = 'cancel response ';

/** The dependencies of reading the responses of other gateways. */
interface ElsewhereDependencies {
  readonly documents: Documents;
  readonly runtime: Pick<Runtime, 'after'>;
  /** The claims that all gateways share; undefined: there is no other gateway. */
  readonly sharedClaims: Claims | undefined;
  /** The responses that run in this process. */
  readonly jobs: ReadonlyMap<string, { cancel(): void }>;
}

/** Background responses that another gateway runs. Their progress is read from what that gateway stores; they are ended by taking a claim that it looks for. */
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
  runs({ id, state }: Pick<StoredFacts, 'id' | 'state'>): boolean {
    const { sharedClaims, jobs } = this.#dependencies;
    return sharedClaims !== undefined && state === 'running' && !jobs.has(id);
  }

  /** Returns the progress of a response. The caller has reserved memory for it. */
  async progress(name: DocumentName): Promise<{ readonly status: ResponseStatus; readonly answer: Answer }> {
    const events = [];
    for (let after = -1; ;) {
      const chunks = await this.#dependencies.documents.chunks(name, { after, limit: chunksAtOnce }, uncounted);
      events.push(...chunks.flatMap(({ content }) => decodeEvents(content)));
      const last = chunks.at(-1);
      if (last === undefined) break;
      after = last.seq;
    }
    const status = events.length === 0 ? ResponseStatus.QUEUED : ResponseStatus.IN_PROGRESS;
    return { status, answer: toAnswer(name.id, events, false) };
  }

  /** Resolves when it is time to read the progress again. */
  async wait(): Promise<void> {
    await new Promise<void>(resolve => {
      this.#dependencies.runtime.after(pollMs, resolve);
    });
  }

  /** Ends a response. Resolves when its end is stored. Throws `overloaded` if that takes too long. */
  async end(name: DocumentName): Promise<void> {
    const { sharedClaims, documents } = this.#dependencies;
    const claim = cancelPrefix + name.id;
    await sharedClaims?.take(claim, '');
    try {
      for (let waitedMs = 0; waitedMs < endMs; waitedMs += pollMs) {
        const document = await documents.facts(name);
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

  /** Ends responses of this process that other gateways want to end, now and repeatedly until the process ends. */
  watch(): void {
    const { sharedClaims, jobs, runtime } = this.#dependencies;
    if (sharedClaims === undefined) return;
    const look = async (): Promise<void> => {
      if (jobs.size === 0) return;
      for (const name of await sharedClaims.list(cancelPrefix)) jobs.get(name.slice(cancelPrefix.length))?.cancel();
    };
    const timer = runtime.after(pollMs, () => {
      // What can't be read now is read at the next poll.
      void look()
        .catch(() => undefined)
        .finally(() => timer.restart(pollMs));
    });
  }
}
