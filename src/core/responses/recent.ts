import type { Item } from '../../gen/tollgate/v1/content_pb.ts';

/** Cache budget; larger conversations are not cached. */
const bytesMax = 64 * 1024 ** 2;
/** The assumed memory of an item's objects, in addition to its text. */
const itemBytes = 500;

/** All items of a conversation, oldest first. */
export interface RememberedConversation {
  readonly items: readonly Item[];
  /** The total size of the documents' bodies of its stored turns. */
  readonly bodyBytes: number;
}

/**
 * Caches the conversations that were continued last, so that the next turn of a long conversation reads one document instead of a thousand. Stored turns never change, so a cached conversation is valid as long as its last turn is stored.
 */
export class RecentConversations {
  /** By the id of the last response; the least recently used conversation is first. */
  readonly #remembered = new Map<string, RememberedConversation>();
  #bytes = 0;

  /** Returns the conversation up to and including a stored response; undefined if it is not cached. */
  find(responseId: string): RememberedConversation | undefined {
    const found = this.#remembered.get(responseId);
    if (found === undefined) return undefined;
    this.#remembered.delete(responseId);
    this.#remembered.set(responseId, found);
    return found;
  }

  /** Caches a conversation, in place of the shorter one up to `parentId` that it continues. */
  keep(responseId: string, conversation: RememberedConversation, parentId?: string): void {
    if (parentId !== undefined) this.forget(parentId);
    this.forget(responseId);
    const bytes = measureSize(conversation);
    if (bytes > bytesMax) return;
    this.#remembered.set(responseId, conversation);
    this.#bytes += bytes;
    for (const id of this.#remembered.keys()) {
      if (this.#bytes <= bytesMax) break;
      this.forget(id);
    }
  }

  forget(responseId: string): void {
    const found = this.#remembered.get(responseId);
    if (found !== undefined) this.#bytes -= measureSize(found);
    this.#remembered.delete(responseId);
  }
}

function measureSize({ items, bodyBytes }: RememberedConversation): number {
  return bodyBytes + items.length * itemBytes;
}
