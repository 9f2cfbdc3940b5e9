import type { IncomingHttpHeaders } from 'node:http';
import { AccountService } from '../gen/tollgate/v1/account_pb.ts';
import { CatalogService } from '../gen/tollgate/v1/catalog_pb.ts';
import { type AuthenticateResponse, CredentialService } from '../gen/tollgate/v1/credential_pb.ts';
import { BatchService, FileService } from '../gen/tollgate/v1/batch_pb.ts';
import { EmbeddingService } from '../gen/tollgate/v1/embedding_pb.ts';
import { ConversationService } from '../gen/tollgate/v1/conversation_pb.ts';
import { RerankService } from '../gen/tollgate/v1/rerank_pb.ts';
import { GenerationService } from '../gen/tollgate/v1/generation_pb.ts';
import { ResponseService } from '../gen/tollgate/v1/response_pb.ts';
import { ImageService } from '../gen/tollgate/v1/image_pb.ts';
import { type LeanClient, leanClient } from '../rpc/lean-client.ts';
import { SharedBudget } from '../lib/shared-budget.ts';
import type { Call } from './call.ts';
import { FairQueue } from '../lib/fair-queue.ts';
import { LoadWatch } from './load-watch.ts';
import { JsonParser } from './json-parser.ts';
import type { EdgeOptions } from './options.ts';

/** The parts that all routes share: the options, the core's clients, and the counts of running requests. */
export class Edge {
  readonly options: EdgeOptions;
  readonly catalog: LeanClient<typeof CatalogService>;
  readonly generation: LeanClient<typeof GenerationService>;
  readonly accounts: LeanClient<typeof AccountService>;
  readonly responses: LeanClient<typeof ResponseService>;
  readonly conversations: LeanClient<typeof ConversationService>;
  readonly images: LeanClient<typeof ImageService>;
  readonly embeddings: LeanClient<typeof EmbeddingService>;
  readonly files: LeanClient<typeof FileService>;
  readonly batches: LeanClient<typeof BatchService>;
  readonly rerank: LeanClient<typeof RerankService>;
  readonly parser: JsonParser;
  readonly load: LoadWatch;
  /** Starts generation requests, taking turns between accounts. */
  readonly queue: FairQueue<bigint>;
  /** Counts, by client address, requests with an invalid key whose refusal is still being sent. */
  readonly unauthenticated: SharedBudget<string>;
  /** True while the listener is being closed. */
  isListenerClosing = false;
  #open = 0;
  readonly #whenIdle: (() => void)[] = [];

  constructor(options: EdgeOptions) {
    this.options = options;
    this.unauthenticated = new SharedBudget(() => ({ max: Infinity, ownerMax: options.unauthenticatedMax }));
    this.load = new LoadWatch(() => options.load, options.runtime);
    this.queue = new FairQueue(
      () => options.fair,
      () => options.runtime.monotonicMs(),
    );
    this.parser = new JsonParser(options.parser, options.runtime);
    this.catalog = leanClient(CatalogService, options.transport);
    this.generation = leanClient(GenerationService, options.transport);
    this.accounts = leanClient(AccountService, options.transport);
    this.responses = leanClient(ResponseService, options.transport);
    this.conversations = leanClient(ConversationService, options.transport);
    this.images = leanClient(ImageService, options.transport);
    this.embeddings = leanClient(EmbeddingService, options.transport);
    this.files = leanClient(FileService, options.transport);
    this.batches = leanClient(BatchService, options.transport);
    this.rerank = leanClient(RerankService, options.transport);
  }

  /**
   * Asks the core to identify the caller. `limits`: also return the state of the key's request limits; `admission`: refuse if one is used
   * up. Returns synchronously if the core has the key in memory. Throws or rejects if the core refuses the key.
   */
  authenticate(
    call: Call,
    { limits = false, admission = false }: { readonly limits?: boolean; readonly admission?: boolean },
  ): AuthenticateResponse | Promise<AuthenticateResponse> {
    const request = { $typeName: 'tollgate.v1.AuthenticateRequest', limits, admission } as const;
    return this.options.transport.ask(CredentialService.method.authenticate, request, call);
  }

  /** Returns whether a request must be refused instead of being translated with a warning. */
  isStrict(headers: IncomingHttpHeaders): boolean {
    return this.options.strict || headers['x-tollgate-strict'] === 'true';
  }

  /** Returns true while the gateway is stopping: connections close after their current answer. */
  stopping(): boolean {
    return this.isListenerClosing || this.options.draining();
  }

  /** Returns how many generations are being answered, streamed or whole. */
  openAnswers(): number {
    return this.#open;
  }

  /** Counts a generation's answer that starts. */
  answerStarted(): void {
    this.#open += 1;
  }

  /** Counts a generation's answer that has ended. */
  answerEnded(): void {
    this.#open -= 1;
    if (this.#open > 0) return;
    for (const resolve of this.#whenIdle.splice(0)) resolve();
  }

  /** Resolves when no answer is open. */
  async idle(): Promise<void> {
    if (this.#open === 0) return;
    await new Promise<void>(resolve => {
      this.#whenIdle.push(resolve);
    });
  }
}
