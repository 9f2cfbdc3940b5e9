/**
 * The port of documents stored besides the money: prompts, answers and tasks, each a document of bytes that only its
 * owner reads. It is capped in size and may be lost without a cent being wrong, so it is never part of the ledger.
 * Times in ms since 1970 UTC.
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

/** A document's name: ids are unique within a kind, over all accounts. */
export interface DocumentName {
  readonly kind: DocumentKind;
  readonly id: string;
}

/** A document's facts without its bytes. */
export interface DocumentFacts extends DocumentName {
  readonly accountId: number;
  /** Absent if no API key owns it. */
  readonly apiKeyId?: number;
  /** The owner's own word. */
  readonly state: string;
  /** True if nothing is under way: it may be evicted if space is short, but replays, files and batches stay until they expire. */
  readonly finished: boolean;
  readonly createdAtMs: number;
  /** From then on it is not found. */
  readonly endsAtMs: number;
}

/** A document as read. */
export interface StoredDocument extends DocumentFacts {
  readonly body: Uint8Array;
}

/** One piece of a document's log. */
export interface Chunk {
  /** Grows within a document; the owner's own number. */
  readonly seq: number;
  readonly content: Uint8Array;
}

/** A document to be stored. */
export interface NewDocument extends DocumentFacts {
  readonly body: Uint8Array;
  /**
   * Another document of the kind and account that it continues: that one is stored, hidden, as long as this one
   * lives.
   */
  readonly parentId?: string;
  /** The beginning of its log. */
  readonly chunks?: readonly Chunk[];
}

/** A change of a document; absent fields do not change. */
export interface DocumentChange extends DocumentName {
  /** Only while it is in this state. */
  readonly ifState?: string;
  readonly state?: string;
  readonly finished?: boolean;
  readonly endsAtMs?: number;
  readonly body?: Uint8Array;
  /** Appended to its log. Throws `internal` if a number exists already. */
  readonly chunks?: readonly Chunk[];
}

/**
 * All commands are durable when their promise resolves, and run in the order in which they were given. They throw `GatewayError`
 * `overloaded` if storage fails (the command has then done nothing, unless the disk failed midway, which can't be known) or has no room for
 * a running document.
 */
export interface Documents {
  /**
   * Stores a document. `exists`: one of that name is there, which it is answered with (an ended one makes room). `no_parent`: the
   * parent is not there any more; nothing is stored.
   */
  put(document: NewDocument): Promise<PutOutcome>;
  /** Changes a document. `other_state`: it is not in `ifState`. */
  update(change: DocumentChange): Promise<'updated' | 'not_found' | 'other_state'>;
  /** Hides a document at once; its bytes are removed when nothing continues it. */
  delete(name: DocumentName): Promise<'deleted' | 'not_found'>;
  /** Returns the document; with an account, only if it is the owner. Undefined if it does not exist or has ended. */
  find(name: DocumentName, accountId?: number): Promise<StoredDocument | undefined>;
  /**
   * Returns the document with all that it continues, the first one first; undefined as `find`. Ancestors may have
   * ended.
   */
  chain(name: DocumentName, accountId: number): Promise<StoredDocument[] | undefined>;
  /**
   * Returns the log's chunks whose numbers are above `after`, at most `limit` of them and about a megabyte, in order;
   * empty if there are none.
   */
  chunks(name: DocumentName, after: number, limit: number): Promise<Chunk[]>;
  /** Returns the unfinished documents of a kind, oldest first: at a start, those of a process that has ended. */
  unfinished(kind: DocumentKind): Promise<DocumentFacts[]>;
  /** A page of an account's documents of a kind, by their time. Undefined: the document named by `after` is not there. */
  list(page: DocumentPage): Promise<StoredDocument[] | undefined>;
  /** Writes what waits, and ends. */
  close(): Promise<void>;
}

/** Selects documents of an account. */
export interface DocumentPage {
  readonly kind: DocumentKind;
  readonly accountId: number;
  readonly order: 'oldest_first' | 'newest_first';
  /** The id of the document that they come after in that order; absent: from the first on. */
  readonly after?: string | undefined;
  readonly limit: number;
}

/** The result of a `put`. */
export type PutOutcome =
  | { readonly kind: 'stored' }
  | { readonly kind: 'exists'; readonly document: StoredDocument }
  | { readonly kind: 'no_parent' };
