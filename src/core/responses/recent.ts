import type { Item } from '../../gen/tollgate/v1/content_pb.ts';

/** What all that is remembered may take; of what is larger nothing is. */
const bytesMax = 64 * 1024 ** 2;
/** An item's objects, beside its text. */
const itemBytes = 500;

/** All items of a conversation, oldest first. */
export interface RememberedConversation {
  readonly items: readonly Item[];
  /** Of the bodies of its stored turns. */
  readonly bodyBytes: number;
}

/**
 * The conversations that went on last, in memory, so that the next turn of a long one reads one document and not a thousand. Stored turns never change, so
 * whoever has seen that the last one is still there may use what is remembered of it.
 */
export class RecentConversations {
  /** By response id; the one used longest ago first. */
  readonly #remembered = new Map<string, RememberedConversation>();
  #bytes = 0;

  /** A conversation up to and with a stored response; undefined where it is not remembered. */
  find(responseId: string): RememberedConversation | undefined {
    const found = this.#remembered.get(responseId);
    if (found === undefined) return undefined;
    this.#remembered.delete(responseId);
    this.#remembered.set(responseId, found);
    return found;
  }

  /** Remembers a conversation in place of the one that it goes on from. */
  keep(responseId: string, conversation: RememberedConversation, parentId?: string): void {
    if (parentId !== undefined) this.forget(parentId);
    this.forget(responseId);
    const bytes = sizeOf(conversation);
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
    if (found !== undefined) this.#bytes -= sizeOf(found);
    this.#remembered.delete(responseId);
  }
}

function sizeOf({ items, bodyBytes }: RememberedConversation): number {
  return bodyBytes + items.length * itemBytes;
}
