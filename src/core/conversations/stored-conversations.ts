import { GatewayError } from '../../errors/gateway-error.ts';
import type { Item } from '../../gen/tollgate/v1/content_pb.ts';
import {
  type AddConversationItemsRequest,
  type AddConversationItemsResponse,
  AddConversationItemsResponseSchema,
  type ConversationService,
  type CreateConversationRequest,
  type CreateConversationResponse,
  CreateConversationResponseSchema,
  type ListConversationItemsRequest,
} from '../../gen/tollgate/v1/conversation_pb.ts';
import { inputItemId, toResponseId } from '../../generation/response-ids.ts';
import { publicRequestId } from '../../lib/ids.ts';
import type { CallContext, PushedService } from '../../lib/pushed-service.ts';
import type { SealedBox } from '../../lib/sealed-box.ts';
import type { Claims } from '../../store/claims.ts';
import type { ContentRoom } from '../../store/documents.ts';
import type { Credential, Ledger } from '../../ledger/ledger.ts';
import { authenticate } from '../credential.ts';
import { createOnce } from '../idempotency/create-once.ts';
import type { Replays } from '../idempotency/replays.ts';
import { type HeldContent, type LargeMemory, readHeld } from '../held-content.ts';
import { withDistinctIds } from '../responses/distinct-ids.ts';
import { Sealing } from '../responses/sealing.ts';
import {
  ConversationLog,
  type ConversationLogDependencies,
  type ConversationReference,
  type ReadItems,
} from './conversation-log.ts';

/** The dependencies of stored conversations. */
export interface StoredConversationDependencies extends ConversationLogDependencies {
  readonly ledger: Ledger;
  readonly box: SealedBox;
  readonly replays: Replays;
  /** The memory of the stored contents that requests read. */
  readonly memory: LargeMemory;
  /** Has a claim for each conversation in which a response is being generated. */
  readonly claims: Claims;
}

const itemsMax = 20;
const pageDefault = 20;
const pageMax = 100;
const metadataMax = { count: 16, name: 64, value: 512 };

/** A conversation that is locked for one response. Nothing else can change it until it is released. */
export class ConversationLock {
  readonly name: ConversationReference;
  readonly #log: ConversationLog;
  readonly #claims: Claims;
  #isReleased = false;

  /** Call it only after the claim was taken. */
  constructor(name: ConversationReference, log: ConversationLog, claims: Claims) {
    this.name = name;
    this.#log = log;
    this.#claims = claims;
  }

  /**
   * Adds the input and output of a response. They become visible when the request `requestId` is charged; immediately if that is undefined, because the response is free.
   */
  async add(items: readonly Item[], requestId: string | undefined): Promise<void> {
    await this.#log.add(this.name, items, requestId);
  }

  /** Unlocks the conversation. May be called more than once. */
  release(): void {
    if (this.#isReleased) return;
    this.#isReleased = true;
    this.#claims.release(claimName(this.name.id));
  }
}

/** The stored conversations, and the locks that responses take on them. */
export class StoredConversations {
  readonly #dependencies: StoredConversationDependencies;
  readonly #log: ConversationLog;

  constructor(dependencies: StoredConversationDependencies) {
    this.#dependencies = dependencies;
    this.#log = new ConversationLog(dependencies);
  }

  /** Returns the implementation of ConversationService. */
  get service(): PushedService<typeof ConversationService> {
    return {
      createConversation: (request, context) => this.#create(request, context),
      getConversation: async ({ id }, context) => ({
        conversation: await this.#log.find(await this.#toName(id, context)),
      }),
      updateConversation: async ({ id, metadata }, context) => {
        checkMetadata(metadata);
        return { conversation: await this.#log.setMetadata(await this.#findUnlocked(id, context), metadata) };
      },
      deleteConversation: async ({ id }, context) => {
        await this.#log.delete(await this.#findUnlocked(id, context));
        return {};
      },
      addConversationItems: (request, context) => this.#add(request, context),
      listConversationItems: (request, context) => this.#list(request, context),
      getConversationItem: async ({ id, itemId, include }, context) => {
        const name = await this.#toName(id, context);
        return this.#held(name, context, async room => {
          const { items } = await this.#log.read(name, room);
          const item = findItem(items, itemId, name);
          return { item: this.#sealItems([item], include, name)[0] ?? item };
        });
      },
      deleteConversationItem: async ({ id, itemId }, context) => {
        const name = await this.#findUnlocked(id, context);
        await this.#held(name, context, async room => findItem((await this.#log.read(name, room)).items, itemId, name));
        await this.#log.remove(name, [itemId]);
        return { conversation: await this.#log.find(name) };
      },
    };
  }

  /** Locks a conversation for one response. Throws `not_found`, and `conversation_locked` if another response has locked it. */
  async lock(name: ConversationReference): Promise<ConversationLock> {
    await this.#log.find(name);
    const { claims } = this.#dependencies;
    if ((await claims.take(claimName(name.id), '')) !== undefined) throw lockedError(name.id);
    return new ConversationLock(name, this.#log, claims);
  }

  /** Returns all items of a conversation, oldest first, and their size. Throws `not_found`. */
  async read(name: ConversationReference, room: ContentRoom): Promise<ReadItems> {
    return this.#log.read(name, room);
  }

  /** Holds the memory of what is read until the answer was sent. */
  #held<T>(
    { accountId }: ConversationReference,
    context: CallContext,
    read: (room: HeldContent) => Promise<T>,
  ): Promise<T> {
    const { memory } = this.#dependencies;
    return readHeld({ memory, accountId, header: context.requestHeader }, read);
  }

  async #create(request: CreateConversationRequest, context: CallContext): Promise<CreateConversationResponse> {
    const { items, metadata } = request;
    const credential = await this.#authenticate(context);
    checkMetadata(metadata);
    checkCount(items, 0);
    const call = { context, credential, request, answer: CreateConversationResponseSchema };
    return createOnce(this.#dependencies.replays, call, async (keep, requestId) => {
      const conversation = this.#log.describe(metadata);
      const answer: CreateConversationResponse = {
        $typeName: 'tollgate.v1.CreateConversationResponse',
        conversation,
        requestId,
      };
      await keep(answer, { kind: 'conversation', id: conversation.id });
      await this.#log.begin(credential, conversation, this.#withIds(items, []));
      return answer;
    });
  }

  async #add(request: AddConversationItemsRequest, context: CallContext): Promise<AddConversationItemsResponse> {
    const { id, items, include } = request;
    const credential = await this.#authenticate(context);
    checkCount(items, 1);
    const call = { context, credential, request, answer: AddConversationItemsResponseSchema };
    return createOnce(this.#dependencies.replays, call, async (keep, requestId) => {
      const name = await this.#findUnlocked(id, context);
      const added = await this.#held(name, context, async room =>
        this.#withIds(items, (await this.#log.read(name, room)).items),
      );
      await this.#checkUnlocked(id);
      await this.#log.add(name, added);
      const answer: AddConversationItemsResponse = {
        $typeName: 'tollgate.v1.AddConversationItemsResponse',
        items: this.#sealItems(added, include, name),
        requestId,
      };
      await keep(answer, 'kept');
      return answer;
    });
  }

  async #list(request: ListConversationItemsRequest, context: CallContext) {
    const { limit, after, ascending, include } = request;
    const name = await this.#toName(request.id, context);
    if (limit > pageMax)
      throw new GatewayError('invalid_request', `limit must be from 1 to ${pageMax}.`, { param: 'limit' });
    return this.#held(name, context, async room => {
      const { items } = await this.#log.read(name, room);
      if (!ascending) items.reverse();
      const start = after === '' ? 0 : items.indexOf(findItem(items, after, name, 'after')) + 1;
      const end = start + (limit === 0 ? pageDefault : limit);
      return { items: this.#sealItems(items.slice(start, end), include, name), hasMore: end < items.length };
    });
  }

  /** Returns the items, each with an id that no other item of the conversation has. */
  #withIds(items: readonly Item[], before: readonly Item[]): Item[] {
    const responseId = toResponseId(publicRequestId(this.#dependencies.ids.next()));
    const identified = items.map((item, at) =>
      item.id === '' ? { ...item, id: inputItemId(responseId, item, at) } : item,
    );
    return withDistinctIds(responseId, identified, { taken: new Set(before.map(({ id }) => id)), from: 0 });
  }

  #sealItems(items: readonly Item[], include: readonly string[], { accountId }: ConversationReference): Item[] {
    const sealing = new Sealing(this.#dependencies.box, accountId);
    return items.map(item => sealing.sealItem(item, include));
  }

  #authenticate(context: CallContext): Credential | Promise<Credential> {
    return authenticate(context, this.#dependencies.ledger, 'api_key');
  }

  async #toName(id: string, context: CallContext): Promise<ConversationReference> {
    const { accountId } = await this.#authenticate(context);
    return { id, accountId };
  }

  /** Returns the reference of a conversation that the caller may change. Throws `not_found`, and `conversation_locked` if a response has locked it. */
  async #findUnlocked(id: string, context: CallContext): Promise<ConversationReference> {
    const name = await this.#toName(id, context);
    await this.#log.find(name);
    await this.#checkUnlocked(id);
    return name;
  }

  async #checkUnlocked(id: string): Promise<void> {
    if ((await this.#dependencies.claims.find(claimName(id))) !== undefined) throw lockedError(id);
  }
}

function claimName(conversationId: string): string {
  return `conversation ${conversationId}`;
}

function lockedError(id: string): GatewayError {
  return new GatewayError('conversation_locked', `A response is being generated in the conversation ${id}.`, {
    param: 'conversation',
  });
}

function findItem(items: readonly Item[], itemId: string, { id }: ConversationReference, param = 'item_id'): Item {
  const item = items.find(each => each.id === itemId);
  if (item !== undefined) return item;
  throw new GatewayError('not_found', `The conversation ${id} has no item ${itemId}.`, { param });
}

function checkCount(items: readonly Item[], min: number): void {
  if (items.length >= min && items.length <= itemsMax) return;
  throw invalid('items', `must have ${min} to ${itemsMax} entries`);
}

function checkMetadata(metadata: Readonly<Record<string, string>>): void {
  const { count, name, value } = metadataMax;
  const entries = Object.entries(metadata);
  if (entries.length > count || entries.some(([key, text]) => key.length > name || text.length > value)) {
    throw invalid('metadata', `must have at most ${count} entries, names of ${name} and values of ${value} characters`);
  }
}

function invalid(param: string, message: string): GatewayError {
  return new GatewayError('validation_error', `\`${param}\` ${message}.`, {
    param,
    violations: [{ path: [param], message, type: 'invalid_value' }],
  });
}
