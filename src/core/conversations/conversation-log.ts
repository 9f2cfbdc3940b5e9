import { create, fromBinary, type MessageInitShape, toBinary } from '@bufbuild/protobuf';
import { GatewayError } from '../../errors/gateway-error.ts';
import type { Item } from '../../gen/tollgate/v1/content_pb.ts';
import {
  type Conversation,
  ConversationSchema,
  type StoredConversationChange,
  StoredConversationChangeSchema,
} from '../../gen/tollgate/v1/conversation_pb.ts';
import { fromBinaryInTurns, toBinaryInTurns } from '../../generation/large-message.ts';
import type { Clock } from '../../lib/clock.ts';
import { type IdSource, publicRequestId } from '../../lib/ids.ts';
import type { Ledger } from '../../ledger/ledger.ts';
import { type Chunk, type ContentRoom, type DocumentChange, type Documents, uncounted } from '../../store/documents.ts';

/**
 * Stores conversations as documents: the body has the metadata, the chunks have the changes of the items. A change is durable when its promise resolves.
 */

/** The dependencies of storing conversations. */
export interface ConversationLogDependencies {
  readonly documents: Documents;
  readonly ledger: Pick<Ledger, 'findActivity'>;
  readonly ids: IdSource;
  readonly clock: Clock;
  /** How long a conversation is kept after its last use. */
  readonly lifetimeMs: number;
}

/** A conversation of an account. */
export interface ConversationReference {
  readonly id: string;
  readonly accountId: number;
}

/** The API key that begins a conversation. */
export interface ConversationOwner {
  readonly accountId: number;
  readonly keyId: number;
}

/** The items of a conversation. */
export interface ReadItems {
  readonly items: Item[];
  /** About how many bytes they have, deleted ones included. */
  readonly bytes: number;
}

/** How many changes are read at a time. */
const changesAtOnce = 64;
/** The states of a request's record in which its items are part of the conversation. */
const chargedStates: ReadonlySet<string> = new Set(['completed', 'incomplete']);

/** Reads and writes conversations. Every method throws `not_found` (with the field `conversation`) for a conversation that does not exist, has expired or belongs to another account. */
export class ConversationLog {
  readonly #dependencies: ConversationLogDependencies;

  constructor(dependencies: ConversationLogDependencies) {
    this.#dependencies = dependencies;
  }

  /** Returns a new conversation that is not stored yet. */
  describe(metadata: Conversation['metadata']): Conversation {
    const { ids, clock } = this.#dependencies;
    const id = `conv_${publicRequestId(ids.next()).replace(/^req_/, '')}`;
    return create(ConversationSchema, { id, createdAtMs: BigInt(clock.now()), metadata });
  }

  /** Stores a new conversation with its first items. */
  async begin(
    { accountId, keyId }: ConversationOwner,
    conversation: Conversation,
    items: readonly Item[],
  ): Promise<void> {
    const { documents, lifetimeMs } = this.#dependencies;
    const nowMs = Number(conversation.createdAtMs);
    await documents.put({
      kind: 'conversation',
      id: conversation.id,
      accountId,
      apiKeyId: keyId,
      state: 'kept',
      finished: true,
      createdAtMs: nowMs,
      endsAtMs: nowMs + lifetimeMs,
      body: toBinary(ConversationSchema, conversation),
      chunks: items.length === 0 ? [] : [await this.#chunk({ added: [...items] })],
      handsOver: true,
    });
  }

  async find({ id, accountId }: ConversationReference): Promise<Conversation> {
    const document = await this.#dependencies.documents.find({ kind: 'conversation', id }, uncounted, accountId);
    if (document === undefined) throw noConversation(id);
    return fromBinary(ConversationSchema, document.body);
  }

  /** Returns all items, oldest first, and their size. */
  async read(name: ConversationReference, room: ContentRoom): Promise<ReadItems> {
    const { id, accountId } = name;
    const facts = await this.#dependencies.documents.facts({ kind: 'conversation', id }, accountId);
    if (facts === undefined) throw noConversation(id);
    await room.reserve(facts.bytes);
    const items = new Map<string, Item>();
    const document = { kind: 'conversation', id: name.id } as const;
    for (let after = -1; ;) {
      const chunks = await this.#dependencies.documents.chunks(document, { after, limit: changesAtOnce }, uncounted);
      for (const { seq, content } of chunks) {
        const change = await fromBinaryInTurns(StoredConversationChangeSchema, content, 'freed');
        after = seq;
        if (!(await this.#isDone(change, name))) continue;
        for (const item of change.added) items.set(item.id, item);
        for (const id of change.deleted) items.delete(id);
      }
      if (chunks.length === 0) return { items: [...items.values()], bytes: facts.bytes };
    }
  }

  /** Replaces the metadata of a conversation. */
  async setMetadata(name: ConversationReference, metadata: Conversation['metadata']): Promise<Conversation> {
    const conversation = { ...(await this.find(name)), metadata };
    await this.#change(name, { body: toBinary(ConversationSchema, conversation) });
    return conversation;
  }

  /**
   * Adds items at the end. `requestId`: the request whose response the items belong to; they become visible when that request is charged. Undefined: they are visible immediately.
   */
  async add(name: ConversationReference, items: readonly Item[], requestId?: string): Promise<void> {
    const chunk = await this.#chunk({ added: [...items], ...(requestId === undefined ? {} : { requestId }) });
    await this.#change(name, { chunks: [chunk] });
  }

  /** Deletes items. */
  async remove(name: ConversationReference, itemIds: readonly string[]): Promise<void> {
    await this.#change(name, { chunks: [await this.#chunk({ deleted: [...itemIds] })] });
  }

  async delete(name: ConversationReference): Promise<void> {
    await this.find(name);
    const outcome = await this.#dependencies.documents.delete({ kind: 'conversation', id: name.id });
    if (outcome === 'not_found') throw noConversation(name.id);
  }

  async #change({ id }: ConversationReference, change: Pick<DocumentChange, 'body' | 'chunks'>): Promise<void> {
    const { documents, clock, lifetimeMs } = this.#dependencies;
    const endsAtMs = clock.now() + lifetimeMs;
    const outcome = await documents.update({ kind: 'conversation', id, endsAtMs, ...change, handsOver: true });
    if (outcome !== 'updated') throw noConversation(id);
  }

  async #chunk(change: MessageInitShape<typeof StoredConversationChangeSchema>): Promise<Chunk> {
    const message = create(StoredConversationChangeSchema, change);
    const content = await toBinaryInTurns(StoredConversationChangeSchema, message);
    return { seq: this.#dependencies.ids.next(), content };
  }

  /** Returns whether a change counts. The items of a response count only if it was charged, so that a crash before the charge leaves neither. */
  async #isDone({ requestId }: StoredConversationChange, { accountId }: ConversationReference): Promise<boolean> {
    if (requestId === undefined) return true;
    const record = await this.#dependencies.ledger.findActivity(accountId, requestId);
    return record !== undefined && chargedStates.has(record.row.state);
  }
}

function noConversation(id: string): GatewayError {
  return new GatewayError('not_found', `There is no conversation ${id}.`, { param: 'conversation' });
}
