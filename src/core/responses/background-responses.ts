import { Delivery } from '../../gen/tollgate/v1/request_pb.ts';
import type { CreateResponseRequest, CreateResponseResponse, ResponseHead } from '../../gen/tollgate/v1/response_pb.ts';
import { pump, type Sink } from '../../lib/push.ts';
import type { Runtime } from '../../lib/runtime.ts';
import type { SealedBox } from '../../lib/sealed-box.ts';
import type { Documents } from '../../store/documents.ts';
import type { Generations } from '../generation/generations.ts';
import type { Keeper } from '../idempotency/replays.ts';
import { type AskedResponse, ownInput, responseHead, withCallerPaths } from './asked.ts';
import { BackgroundJob } from './background-job.ts';
import { createMessage } from './create-message.ts';
import type { ResponseCaller } from './response-sink.ts';
import type { ResponseWriter } from './response-writer.ts';
import { Sealing } from './sealing.ts';
import type { StoredResponses } from './stored-responses.ts';

/** What responses in the background are made with. */
export interface BackgroundTools {
  readonly documents: Documents;
  readonly runtime: Runtime;
  readonly generations: Generations;
  readonly box: SealedBox;
  readonly writer: ResponseWriter;
  readonly stored: StoredResponses;
  /** Those that run, by id; kept here, read by whoever asks about them. */
  readonly jobs: Map<string, BackgroundJob>;
}

/** Responses that run in the background, whoever waits for them. */
export class BackgroundResponses {
  readonly #tools: BackgroundTools;

  constructor(tools: BackgroundTools) {
    this.#tools = tools;
  }

  /** Resolves when the end of each is stored. */
  async idle(): Promise<void> {
    await Promise.all(Array.from(this.#tools.jobs.values(), job => job.ended));
  }

  /** Begins a response in the background. Returns the message that says so. */
  async begin(
    asked: AskedResponse,
    keeper: Keeper<CreateResponseResponse> | undefined,
  ): Promise<CreateResponseResponse> {
    const { documents, runtime, generations, writer, jobs } = this.#tools;
    const { credential, requestId } = asked;
    const request = { ...asked.request, delivery: Delivery.STREAMED };
    const told = { isAnsweredEarly: true, durable: true, freeWhenCut: true };
    const generation = await withCallerPaths(asked, () =>
      generations.begin({ request, credential, requestId, ...told }),
    );
    const head = responseHead(asked, generation);
    const { id, input } = ownInput(asked);
    const first = createMessage([], { head, limits: generation.limits });
    try {
      const { inherited } = await writer.put(asked, head, { state: 'running' });
      await keeper?.keep(requestId, [first], 'kept');
      const onEnd = (): void => void jobs.delete(id);
      const job = new BackgroundJob({ documents, runtime, generation, head, input, inherited, onEnd });
      jobs.set(id, job);
      generation.start(job);
      return first;
    } catch (thrown) {
      // Nothing was sent: the hold is given back, and what was stored says that nothing came of it.
      generation.cut();
      await new Promise<void>(resolve => {
        generation.start({ events: () => undefined, end: () => resolve() });
      });
      await documents.delete({ kind: 'response', id }).catch(() => undefined);
      throw thrown;
    }
  }

  /** Returns a sink for the message that says how a response has begun, now or before it was repeated. The rest is pushed to a caller that takes it as it comes. */
  following(
    { request }: CreateResponseRequest,
    accountId: number,
    { call, sink }: ResponseCaller,
  ): Sink<CreateResponseResponse> {
    if (request?.delivery === Delivery.WHOLE) return sink;
    let head: ResponseHead | undefined;
    return {
      message: message => {
        head ??= message.head;
        sink.message(message);
      },
      end: error => {
        const begun = head;
        if (error !== undefined || begun === undefined) sink.end(error);
        else call.attach(pump(signal => this.#follow(begun, accountId, signal), sink));
      },
    };
  }

  async *#follow(
    { id, settings }: ResponseHead,
    accountId: number,
    signal: AbortSignal,
  ): AsyncGenerator<CreateResponseResponse, void, undefined> {
    const sealing = new Sealing(this.#tools.box, accountId).step(settings?.include ?? []);
    for await (const { events, end } of this.#tools.stored.follow({ id, accountId }, sealing, signal))
      yield createMessage(events, { end });
  }
}
