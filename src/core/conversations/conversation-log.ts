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
import type { Chunk, DocumentChange, Documents } from '../../store/documents.ts';

/**
 * Conversations as documents: the body holds the metadata, the log holds the changes of the items. Changes are
 * durable when a promise resolves.
 */

/** The tools for storing conversations. */
export interface ConversationLogTools {
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

/** Changes of a log that are read at a time. */
const changesAtOnce = 64;
/** A field of the request's record: its response is part of the conversation. */
const chargedStates: ReadonlySet<string> = new Set(['completed', 'incomplete']);

/** Reads and writes conversations. Every method throws `not_found`, param `conversation`, for one that is unknown, has ended or belongs to another account. */
export class ConversationLog {
  readonly #tools: ConversationLogTools;

  constructor(tools: ConversationLogTools) {
    this.#tools = tools;
  }

  /** Begins a conversation. */
  async begin(
    { accountId, keyId }: ConversationOwner,
    metadata: Conversation['metadata'],
    items: readonly Item[],
  ): Promise<Conversation> {
    const { documents, ids, clock, lifetimeMs } = this.#tools;
    const nowMs = clock.now();
    const id = `conv_${publicRequestId(ids.next()).replace(/^req_/, '')}`;
    const conversation = create(ConversationSchema, { id, createdAtMs: BigInt(nowMs), metadata });
    await documents.put({
      kind: 'conversation',
      id,
      accountId,
      apiKeyId: keyId,
      state: 'kept',
      finished: true,
      createdAtMs: nowMs,
      endsAtMs: nowMs + lifetimeMs,
      body: toBinary(ConversationSchema, conversation),
      chunks: items.length === 0 ? [] : [await this.#chunk({ added: [...items] })],
    });
    return conversation;
  }

  async find({ id, accountId }: ConversationReference): Promise<Conversation> {
    const document = await this.#tools.documents.find({ kind: 'conversation', id }, accountId);
    if (document === undefined) throw noConversation(id);
    return fromBinary(ConversationSchema, document.body);
  }

  /** Returns all items, oldest first. */
  async read(name: ConversationReference): Promise<Item[]> {
    await this.find(name);
    const items = new Map<string, Item>();
    const document = { kind: 'conversation', id: name.id } as const;
    for (let after = -1; ;) {
      const chunks = await this.#tools.documents.chunks(document, after, changesAtOnce);
      for (const { seq, content } of chunks) {
        const change = await fromBinaryInTurns(StoredConversationChangeSchema, content);
        after = seq;
        if (!(await this.#isDone(change, name))) continue;
        for (const item of change.added) items.set(item.id, item);
        for (const id of change.deleted) items.delete(id);
      }
      if (chunks.length === 0) return [...items.values()];
    }
  }

  /** Replaces the labels of a conversation. */
  async setMetadata(name: ConversationReference, metadata: Conversation['metadata']): Promise<Conversation> {
    const conversation = { ...(await this.find(name)), metadata };
    await this.#change(name, { body: toBinary(ConversationSchema, conversation) });
    return conversation;
  }

  /**
   * Adds items at the end. `requestId`: the request whose response they are part of; they become visible when it is charged. Undefined:
   * they are visible at once.
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
    const outcome = await this.#tools.documents.delete({ kind: 'conversation', id: name.id });
    if (outcome === 'not_found') throw noConversation(name.id);
  }

  async #change({ id }: ConversationReference, change: Pick<DocumentChange, 'body' | 'chunks'>): Promise<void> {
    const { documents, clock, lifetimeMs } = this.#tools;
    const endsAtMs = clock.now() + lifetimeMs;
    const outcome = await documents.update({ kind: 'conversation', id, endsAtMs, ...change });
    if (outcome !== 'updated') throw noConversation(id);
  }

  async #chunk(change: MessageInitShape<typeof StoredConversationChangeSchema>): Promise<Chunk> {
    const message = create(StoredConversationChangeSchema, change);
    const content = await toBinaryInTurns(StoredConversationChangeSchema, message);
    return { seq: this.#tools.ids.next(), content };
  }

  /** Items of a response become visible only if it was charged: after a crash between the two, neither is kept. */
  async #isDone({ requestId }: StoredConversationChange, { accountId }: ConversationReference): Promise<boolean> {
    if (requestId === undefined) return true;
    const record = await this.#tools.ledger.findActivity(accountId, requestId);
    return record !== undefined && chargedStates.has(record.row.state);
  }
}

function noConversation(id: string): GatewayError {
  return new GatewayError('not_found', `There is no conversation ${id}.`, { param: 'conversation' });
}
