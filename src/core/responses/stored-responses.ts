import { GatewayError } from '../../errors/gateway-error.ts';
import type { Completed, GenerationEvent } from '../../gen/tollgate/v1/event_pb.ts';
import {
  type FollowResponseRequest,
  type FollowResponseResponse,
  type ListInputItemsRequest,
  type Response,
  type ResponseEnd,
  type ResponseFailure,
  type ResponseHead,
  type ResponseService,
  ResponseStatus,
  type StoredAnswer,
  StoredAnswerSchema,
} from '../../gen/tollgate/v1/response_pb.ts';
import { countBytes } from '../../generation/large-message.ts';
import { completed as completedEvent } from '../../generation/events.ts';
import { toRequestId } from '../../generation/response-ids.ts';
import { parseLedgerId } from '../../lib/ids.ts';
import { pump } from '../../lib/push.ts';
import type { Runtime } from '../../lib/runtime.ts';
import type { CallContext, PushedService } from '../../lib/pushed-service.ts';
import type { SealedBox } from '../../lib/sealed-box.ts';
import {
  type ContentRoom,
  type DocumentFacts,
  largeContentBytes,
  type Documents,
  type StoredDocument,
  type StoredFacts,
  uncounted,
} from '../../store/documents.ts';
import type { Ledger } from '../../ledger/ledger.ts';
import { authenticate } from '../credential.ts';
import { HeldContent, type LargeMemory, readHeld } from '../held-content.ts';
import type { BackgroundJob } from './background-job.ts';
import type { Conversations } from './conversations.ts';
import { Sealing, type SealStep } from './sealing.ts';
import type { Elsewhere } from './elsewhere.ts';
import type { Settling } from './settling.ts';
import { decodeEvents, decodeAnswer, readFailure, toStatus, type StoredState } from './stored-response.ts';

/** The methods for existing responses. */
type StoredMethods = Pick<
  PushedService<typeof ResponseService>,
  'getResponse' | 'followResponse' | 'cancelResponse' | 'deleteResponse' | 'listInputItems'
>;

/** The dependencies of `StoredResponses`. */
interface StoredDependencies {
  readonly documents: Documents;
  readonly memory: LargeMemory;
  readonly conversations: Conversations;
  readonly ledger: Ledger;
  readonly box: SealedBox;
  readonly runtime: Pick<Runtime, 'after'>;
  /** The responses that this process runs in the background, by id. */
  readonly jobs: ReadonlyMap<string, BackgroundJob>;
  /** The ids of responses that this process is about to run. */
  readonly beginning: ReadonlySet<string>;
  /** The responses of waiting clients that are stored but not charged yet. */
  readonly settling: Settling;
  readonly elsewhere: Elsewhere;
}

/** Identifies a response of an account. */
export interface OwnedName {
  readonly id: string;
  readonly accountId: number;
}

const pageDefault = 20;
const pageMax = 100;
/** How often to check whether a response was charged. */
const settlePollMs = 20;
/** How much more memory a stored response takes as a stream: its last events, which repeat the text several times, are sent at once. */
const streamedTimes = 8;
/** How many chunks are read at a time. */
const chunksAtOnce = 64;

/** Reads stored responses, running ones too, from their documents, their jobs and the ledger. */
export class StoredResponses {
  readonly #dependencies: StoredDependencies;

  constructor(dependencies: StoredDependencies) {
    this.#dependencies = dependencies;
  }

  get methods(): StoredMethods {
    return {
      getResponse: async ({ id, include }, context) => {
        const name = await this.#name(id, context);
        return this.#held(name, context, async room => ({ response: await this.#response(name, include, room) }));
      },
      followResponse: (request, context, sink) => pump(signal => this.#follow(request, context, signal), sink),
      cancelResponse: async ({ id }, context) => {
        const name = await this.#name(id, context);
        return this.#held(name, context, async room => {
          const message = 'Only a background response can be cancelled.';
          const tip = 'To end a response that does not run in the background, close its connection.';
          await this.#background(name, room, new GatewayError('invalid_request', message, { tip }));
          await this.#endJob(name);
          return { response: await this.#response(name, [], room.again) };
        });
      },
      deleteResponse: async ({ id }, context) => {
        const name = await this.#name(id, context);
        await this.#facts(name);
        await this.#endJob(name);
        if ((await this.#dependencies.documents.delete({ kind: 'response', id })) === 'not_found') throw notFound(id);
        return {};
      },
      listInputItems: async (request, context) => {
        const name = await this.#name(request.id, context);
        return this.#held(name, context, room => this.#inputItems(request, name, room));
      },
    };
  }

  /** Holds the memory of what is read until the answer was sent. */
  #held<T>({ accountId }: OwnedName, context: CallContext, read: (room: HeldContent) => Promise<T>): Promise<T> {
    const { memory } = this.#dependencies;
    return readHeld({ memory, accountId, header: context.requestHeader }, read);
  }

  /** Stores the end of unfinished responses that no process is running: those of an earlier process, and those for which storage failed. */
  async recover(): Promise<void> {
    const { documents, jobs, beginning } = this.#dependencies;
    const unfinished = await documents.unfinished('response');
    const left = unfinished.filter(({ id }) => !jobs.has(id) && !beginning.has(id));
    await Promise.all(left.map(facts => this.#recover(facts)));
  }

  async #recover({ id, accountId }: DocumentFacts): Promise<void> {
    const record = await this.#record({ id, accountId });
    const states: Partial<Record<string, StoredState>> = { client_aborted: 'cancelled', upstream_failed: 'failed' };
    const state = states[record?.state ?? ''] ?? 'restarted';
    await this.#dependencies.documents.update({ kind: 'response', id, ifState: 'running', state, finished: true });
  }

  /**
   * Yields all events of a response, waiting for those that have not come yet, then how it ended. Throws if the response is deleted meanwhile. `room`: the memory of its document.
   */
  async *follow(
    name: OwnedName,
    { sealing, room, signal }: FollowHow,
  ): AsyncGenerator<{ events: GenerationEvent[]; end?: ResponseEnd }, void, undefined> {
    const document = { kind: 'response' as const, id: name.id };
    const { elsewhere } = this.#dependencies;
    let after = -1;
    while (!signal.aborted) {
      const job = this.#dependencies.jobs.get(name.id);
      // Subscribed before the log is read, so that no event is missed.
      const changed = job?.changed();
      const isFar = job === undefined && elsewhere.hasOthers && elsewhere.runs(await this.#facts(name));
      const chunks = await this.#dependencies.documents.chunks(document, { after, limit: chunksAtOnce }, uncounted);
      const last = chunks.at(-1);
      if (last !== undefined) {
        after = last.seq;
        yield { events: sealing.push(chunks.flatMap(({ content }) => decodeEvents(content))) };
      } else if (changed !== undefined) {
        await changedOrAborted(changed, signal);
      } else if (isFar) {
        await changedOrAborted(elsewhere.wait(), signal);
      } else {
        yield await this.#end(name, room);
        return;
      }
    }
  }

  async *#follow(
    { id, skipEvents, include }: FollowResponseRequest,
    context: CallContext,
    signal: AbortSignal,
  ): AsyncGenerator<FollowResponseResponse, void, undefined> {
    const name = await this.#name(id, context);
    const { memory } = this.#dependencies;
    const { accountId } = name;
    const header = context.requestHeader;
    const refusal = new GatewayError('invalid_request', 'Only a background response can be streamed afterwards.', {
      param: 'stream',
    });
    const background = await readHeld({ memory, accountId }, room => this.#background(name, room, refusal));
    const room = new HeldContent({ memory, accountId, header });
    try {
      await room.reserve(streamedTimes * background.shownBytes);
      yield* this.#followHeld({ name, head: background.head, skipEvents, include }, room, signal);
    } finally {
      room.made();
    }
  }

  async *#followHeld(
    { name, head, skipEvents, include }: Followed,
    room: HeldContent,
    signal: AbortSignal,
  ): AsyncGenerator<FollowResponseResponse, void, undefined> {
    yield step([], { head });
    const sealing = new Sealing(this.#dependencies.box, name.accountId).step([
      ...include,
      ...(head.settings?.include ?? []),
    ]);
    let skip = skipEvents;
    for await (const { events, end } of this.follow(name, { sealing, room: room.end, signal })) {
      const rest = events.slice(skip);
      skip = Math.max(0, skip - events.length);
      if (rest.length > 0 || end !== undefined) yield step(rest, end === undefined ? {} : { end });
    }
  }

  async #name(id: string, context: CallContext): Promise<OwnedName> {
    const { accountId } = await authenticate(context, this.#dependencies.ledger, 'api_key');
    return { id, accountId };
  }

  async #document({ id, accountId }: OwnedName, room: ContentRoom): Promise<StoredDocument> {
    const document = await this.#dependencies.documents.find({ kind: 'response', id }, room, accountId);
    if (document === undefined) throw notFound(id);
    return document;
  }

  async #facts({ id, accountId }: OwnedName): Promise<StoredFacts> {
    const facts = await this.#dependencies.documents.facts({ kind: 'response', id }, accountId);
    if (facts === undefined) throw notFound(id);
    return facts;
  }

  async #response(name: OwnedName, include: readonly string[], room: ContentRoom): Promise<Response> {
    // The job is looked up before its document is read. Otherwise a job that ends in between would be reported as abandoned.
    const job = this.#dependencies.jobs.get(name.id);
    const document = await this.#document(name, room);
    const stored = await decodeAnswer(document);
    const { elsewhere } = this.#dependencies;
    const far = job === undefined && elsewhere.runs(document) ? await elsewhere.progress(document) : undefined;
    const running = job ?? far;
    const { output, extensions } = running?.answer ?? stored;
    const ended = running === undefined ? await this.#readResult(name, document.state, stored) : undefined;
    const sealing = new Sealing(this.#dependencies.box, name.accountId);
    const shown = [...include, ...(stored.head?.settings?.include ?? [])];
    return {
      $typeName: 'tollgate.v1.Response',
      ...(stored.head === undefined ? {} : { head: stored.head }),
      status: ResponseStatus.IN_PROGRESS,
      ...(running === undefined ? ended : { status: running.status }),
      output: output.map(item => sealing.sealItem(item, shown)),
      extensions,
      ...(stored.finished === undefined || ended?.completed === undefined ? {} : { finished: stored.finished }),
    };
  }

  /**
   * Returns the result of a response that is no longer running, from its document and the ledger. A response that is stored as complete but was not charged, because the process died before that, does not count as an answer.
   */
  async #readResult(name: OwnedName, stored: string, body: StoredAnswer): Promise<Ended> {
    await this.#dependencies.settling.over(name.id);
    const record = stored === 'ended' ? await this.#recordOnceSettled(name) : undefined;
    const state = stored === 'ended' && record === undefined ? 'restarted' : stored;
    const status = toStatus(state, body);
    const failure = readFailure(state, body);
    if (failure !== undefined) return { status, failure };
    if (body.completed === undefined || record === undefined) return { status };
    return { status, completed: { ...body.completed, costNanoUsd: record.costNanoUsd } };
  }

  /** Returns the ledger's record of a response that is stored as complete. Waits if another worker or gateway may be about to charge it. */
  async #recordOnceSettled(name: OwnedName): Promise<{ state: string; costNanoUsd: bigint } | undefined> {
    for (;;) {
      const record = await this.#record(name);
      const requestId = toRequestId(name.id);
      const id = record === undefined && requestId !== undefined ? parseLedgerId(requestId) : undefined;
      if (id === undefined || !(await this.#dependencies.ledger.isHeld(id)))
        return record ?? (await this.#record(name));
      await new Promise<void>(resolve => {
        this.#dependencies.runtime.after(settlePollMs, resolve);
      });
    }
  }

  /** Returns the ledger's record of a response; undefined if it was not charged. */
  async #record({ id, accountId }: OwnedName): Promise<{ state: string; costNanoUsd: bigint } | undefined> {
    const requestId = toRequestId(id);
    if (requestId === undefined) return undefined;
    return (await this.#dependencies.ledger.findActivity(accountId, requestId))?.row;
  }

  /** Returns the last events of a response that has ended, and how it ended. */
  async #end(name: OwnedName, room: ContentRoom): Promise<{ events: GenerationEvent[]; end: ResponseEnd }> {
    const document = await this.#document(name, room);
    const { completed, ...end } = await this.#readResult(name, document.state, await decodeAnswer(document));
    return {
      events: completed === undefined ? [] : [completedEvent(completed)],
      end: { $typeName: 'tollgate.v1.ResponseEnd', ...end },
    };
  }

  /** Returns the head of a background response, and how many bytes of it clients see (0 if it is small). Throws `refusal` for any other response. */
  async #background(
    name: OwnedName,
    room: ContentRoom,
    refusal: GatewayError,
  ): Promise<{ readonly head: ResponseHead; readonly shownBytes: number }> {
    const document = await this.#document(name, room);
    const isLarge = document.body.length > largeContentBytes;
    const answer = await decodeAnswer(document);
    const { head } = answer;
    if (head?.background !== true) throw refusal;
    return { head, shownBytes: isLarge ? countBytes(StoredAnswerSchema, answer) : 0 };
  }

  async #endJob(name: OwnedName): Promise<void> {
    const job = this.#dependencies.jobs.get(name.id);
    if (job === undefined) {
      const facts = await this.#facts(name);
      if (this.#dependencies.elsewhere.runs(facts)) await this.#dependencies.elsewhere.end(facts);
      return;
    }
    job.cancel();
    await job.ended;
  }

  async #inputItems(
    { limit, after, ascending, include }: ListInputItemsRequest,
    { id, accountId }: OwnedName,
    room: ContentRoom,
  ) {
    if (limit > pageMax) throw badPage('limit', `limit must be from 1 to ${pageMax}.`);
    const items = await this.#dependencies.conversations.findInput(id, accountId, room);
    if (items === undefined) throw notFound(id);
    if (!ascending) items.reverse();
    const start = after === '' ? 0 : items.findIndex(item => item.id === after) + 1;
    if (after !== '' && start === 0) throw badPage('after', `after must be the id of an input item of ${id}.`);
    const end = start + (limit === 0 ? pageDefault : limit);
    const sealing = new Sealing(this.#dependencies.box, accountId);
    const page = items.slice(start, end).map(item => sealing.sealItem(item, include));
    return { items: page, hasMore: end < items.length };
  }
}

/** The parts of a response to send. */
interface Followed extends Pick<FollowResponseRequest, 'skipEvents' | 'include'> {
  readonly name: OwnedName;
  readonly head: ResponseHead;
}

/** How a response is followed. */
interface FollowHow {
  readonly sealing: SealStep;
  readonly room: ContentRoom;
  readonly signal: AbortSignal;
}

/** The end of a response, and its usage if it is complete. */
interface Ended {
  readonly status: ResponseStatus;
  readonly failure?: ResponseFailure;
  readonly completed?: Completed;
}

function badPage(param: string, text: string): GatewayError {
  return new GatewayError('invalid_request', text, { param });
}

function notFound(id: string): GatewayError {
  return new GatewayError('not_found', `There is no response ${id}.`, { param: 'response_id' });
}

function step(events: GenerationEvent[], rest: { head?: ResponseHead; end?: ResponseEnd }): FollowResponseResponse {
  return { $typeName: 'tollgate.v1.FollowResponseResponse', events, ...rest };
}

async function changedOrAborted(changed: Promise<void>, signal: AbortSignal): Promise<void> {
  if (signal.aborted) return;
  const { promise, resolve } = Promise.withResolvers<void>();
  const abort = (): void => resolve();
  signal.addEventListener('abort', abort, { once: true });
  await Promise.race([changed, promise]);
  signal.removeEventListener('abort', abort);
}
