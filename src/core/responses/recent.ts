import type { Item } from '../../gen/tollgate/v1/content_pb.ts';

/** Cache budget; larger conversations are not cached. */
const bytesMax = 64 * 1024 ** 2;
/** The size of an item's objects besides its text. */
const itemBytes = 500;

/** All items of a conversation, oldest first. */
export interface RememberedConversation {
  readonly items: readonly Item[];
  /** Total size of the bodies of its stored turns. */
  readonly bodyBytes: number;
}

/**
 * Caches the conversations that continued last, so that the next turn of a long one reads one document and not a
 * thousand. Stored turns never change, so a cached conversation is valid as long as its last turn is still stored.
 */
export class RecentConversations {
  /** By response id; the one used longest ago first. */
  readonly #remembered = new Map<string, RememberedConversation>();
  #bytes = 0;

  /** Returns a conversation up to and including a stored response; undefined if it is not cached. */
  find(responseId: string): RememberedConversation | undefined {
    const found = this.#remembered.get(responseId);
    if (found === undefined) return undefined;
    this.#remembered.delete(responseId);
    this.#remembered.set(responseId, found);
    return found;
  }

  /** Caches a conversation in place of the one that it continues. */
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
