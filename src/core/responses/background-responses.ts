import { Delivery } from '../../gen/tollgate/v1/request_pb.ts';
import type { CreateResponseRequest, CreateResponseResponse, ResponseHead } from '../../gen/tollgate/v1/response_pb.ts';
import type { SealedBox } from '../../lib/sealed-box.ts';
import type { Documents } from '../../store/documents.ts';
import type { Credential } from '../../ledger/ledger.ts';
import type { Generations } from '../generation/generations.ts';
import type { Keeper } from '../idempotency/replays.ts';
import { type AskedResponse, headOf, inCallersWords, ownInput } from './asked.ts';
import { BackgroundJob } from './background-job.ts';
import { createMessage } from './create-message.ts';
import type { ResponseWriter } from './response-writer.ts';
import { Sealing } from './sealing.ts';
import type { StoredResponses } from './stored-responses.ts';

/** What responses in the background are made with. */
export interface BackgroundTools {
  readonly documents: Documents;
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

  /** Begins a response in the background; answers the message that says so. */
  async begin(asked: AskedResponse, keeper?: Keeper<CreateResponseResponse>): Promise<CreateResponseResponse> {
    const { request, credential, requestId } = asked;
    let job: BackgroundJob | undefined;
    const begun = await inCallersWords(asked, () =>
      this.#tools.generations.begin({
        request: { ...request, delivery: Delivery.STREAMED },
        credential,
        requestId,
        isAnsweredEarly: true,
        beforeSettle: async rest => job?.store(rest),
        freeWhenCut: true,
      }),
    );
    const head = headOf(asked, begun);
    const first = createMessage([], { head, limits: begun.run.limits });
    try {
      const { inherited } = await this.#tools.writer.put(asked, head, { state: 'running' });
      job = new BackgroundJob({ documents: this.#tools.documents, head, input: ownInput(asked).input, inherited });
      await keeper?.keep(requestId, [first], 'kept');
    } catch (thrown) {
      begun.run.cut();
      // Nothing was sent: the hold is given back, and what was stored says that nothing came of it.
      await begun.run
        .events(never)
        .next()
        .catch(() => undefined);
      await this.#tools.documents.delete({ kind: 'response', id: head.id }).catch(() => undefined);
      throw thrown;
    }
    this.#tools.jobs.set(head.id, job);
    job.start(begun.run, () => this.#tools.jobs.delete(head.id));
    return first;
  }

  /** What follows the beginning of a response in the background, for a caller that takes it as it comes. */
  async *follow(
    { request }: CreateResponseRequest,
    { id, settings }: ResponseHead,
    { credential, signal }: { readonly credential: Credential; readonly signal: AbortSignal },
  ): AsyncGenerator<CreateResponseResponse, void, undefined> {
    if (request?.delivery === Delivery.WHOLE) return;
    const { accountId } = credential;
    const seal = new Sealing(this.#tools.box, accountId).step(settings?.include ?? []);
    for await (const step of this.#tools.stored.follow({ id, accountId }, seal, signal))
      yield createMessage(step.events, step);
  }
}

const never = new AbortController().signal;
