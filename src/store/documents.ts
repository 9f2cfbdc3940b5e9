/**
 * The interface of a store for documents: prompts, answers and tasks, as bytes that only the service that stored them understands. Their space
 * is limited, and losing them changes no balance, so they are not part of the ledger. Times are in ms since 1970 UTC.
 */

/** The kinds of documents. */
export type DocumentKind =
  | 'response'
  | 'replay'
  | 'image_task'
  | 'conversation'
  | 'file'
  | 'hidden_file'
  | 'batch'
  | 'message_batch'
  | 'bodies';

/** The name of a document. Ids are unique within a kind, over all accounts. */
export interface DocumentName {
  readonly kind: DocumentKind;
  readonly id: string;
}

/** A document without its bytes. */
export interface DocumentFacts extends DocumentName {
  readonly accountId: number;
  /** The API key that owns the document, if one does. */
  readonly apiKeyId?: number;
  /** The state of the document, as the service that stores it defines states. */
  readonly state: string;
  /** True if no work on the document is running. It may then be evicted if space is short, except replays, files and batches, which stay until they expire. */
  readonly finished: boolean;
  readonly createdAtMs: number;
  /** When the document expires: it is no longer found then. */
  readonly endsAtMs: number;
}

/** A stored document without its bytes. */
export interface StoredFacts extends DocumentFacts {
  /** About how many bytes it has, with its log. */
  readonly bytes: number;
}

/** A document with its bytes. */
export interface StoredDocument extends StoredFacts {
  readonly body: Uint8Array;
}

/** Contents up to this size need no memory of a budget. */
export const largeContentBytes = 1024 ** 2;

/** Memory for the contents that one request reads: every reader of contents names one, so that none of them is forgotten. */
export interface ContentRoom {
  /**
   * Reserves memory for contents of so many bytes, before they are loaded; undefined: it is reserved. Throws or rejects if there is not enough. Called only for more than `largeContentBytes`.
   */
  reserve(bytes: number): Promise<void> | undefined;
}

/** For contents that whoever stores them keeps small, and for those whose memory the reader has already reserved. */
export const uncounted: ContentRoom = { reserve: () => undefined };

/** A part of a document's log. */
export interface Chunk {
  /** A number that the service chooses; it increases within a document. */
  readonly seq: number;
  readonly content: Uint8Array;
}

/** A document to be stored. */
export interface NewDocument extends DocumentFacts {
  readonly body: Uint8Array;
  /**
   * The document that this one continues, of the same kind and account. If that document is deleted, it is only hidden as long as this one
   * exists.
   */
  readonly parentId?: string;
  /** The first chunks of its log. */
  readonly chunks?: readonly Chunk[];
  /** True if the store gets the memory of the body and the chunks, and the caller does not use it afterwards: a large one then needs no copy. */
  readonly handsOver?: boolean;
}

/** A change of a document. An absent field stays as it is. */
export interface DocumentChange extends DocumentName {
  /** The change is made only if the document is in this state. */
  readonly ifState?: string;
  readonly state?: string;
  readonly finished?: boolean;
  readonly endsAtMs?: number;
  readonly body?: Uint8Array;
  /** Chunks to append to the log. `update` throws `internal` if one of their numbers exists already. */
  readonly chunks?: readonly Chunk[];
  /** See `NewDocument`. */
  readonly handsOver?: boolean;
}

/**
 * A command is durable when its promise resolves. Commands run in the order in which they were called. They throw `GatewayError` `overloaded` if
 * there is no room, or if storage fails; then the command has done nothing, except perhaps if the disk failed while it was written.
 */
export interface Documents {
  /**
   * Stores a document; replaces an expired one of the same name. `exists`: there is a document of that name, which is returned. `no_parent`:
   * the parent does not exist any more. In both cases nothing is stored.
   */
  put(document: NewDocument): Promise<PutOutcome>;
  /** Changes a document. `other_state`: its state is not `ifState`. */
  update(change: DocumentChange): Promise<'updated' | 'not_found' | 'other_state'>;
  /** Deletes a document: it is not found any more. Its bytes are removed once no other document continues it. */
  delete(name: DocumentName): Promise<'deleted' | 'not_found'>;
  /** Returns a document; undefined if it does not exist or has expired. `accountId`: only if this account owns it. */
  find(name: DocumentName, room: ContentRoom, accountId?: number): Promise<StoredDocument | undefined>;
  /** Does the same as `find`, without reading the bytes. */
  facts(name: DocumentName, accountId?: number): Promise<StoredFacts | undefined>;
  /**
   * Returns a document and all documents that it continues, directly or indirectly, the first one first; undefined if `find` would return
   * undefined. The continued ones may have expired. Memory for all of them is reserved together.
   */
  chain(name: DocumentName, accountId: number, room: ContentRoom): Promise<StoredDocument[] | undefined>;
  /**
   * Returns the chunks of a document's log whose numbers are above `after`, in order: at most `limit` chunks and about a megabyte;
   * empty if there are none. Memory is reserved for each chunk that is large; a reader that keeps all chunks has to reserve memory for all, by the facts.
   */
  chunks(name: DocumentName, page: ChunkPage, room: ContentRoom): Promise<Chunk[]>;
  /** Returns the unfinished documents of a kind, oldest first. At the start these are the ones that an earlier process has left. */
  unfinished(kind: DocumentKind): Promise<DocumentFacts[]>;
  /** Returns a page of an account's documents of a kind, by time of creation; undefined if the document `after` does not exist. Only for kinds whose documents are small. */
  list(page: DocumentPage): Promise<StoredDocument[] | undefined>;
  /** Closes the store once all queued commands are written. */
  close(): Promise<void>;
}

/** Selects chunks of a log. */
export interface ChunkPage {
  readonly after: number;
  readonly limit: number;
}

/** Selects a page of an account's documents. */
export interface DocumentPage {
  readonly kind: DocumentKind;
  readonly accountId: number;
  readonly order: 'oldest_first' | 'newest_first';
  /** The id of the document after which the page begins; absent: it begins with the first document. */
  readonly after?: string | undefined;
  readonly limit: number;
}

/** The result of a `put`. */
export type PutOutcome =
  | { readonly kind: 'stored' }
  | { readonly kind: 'exists'; readonly document: StoredDocument }
  | { readonly kind: 'no_parent' };
